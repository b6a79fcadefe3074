"""The rarity of words in a user's messages: weights, and estimates of how much a search finds.

Tantivy's own BM25 counts documents over all users, so another user's writes would move a user's scores. Weights are
rounded to 1/64, so that sums are exact in 32 bits in any order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nomemory.server.lexical.form import FORMS, worth
from nomemory.server.lexical.query import Leaf, Query

_STEPS = 64
"""Weights are whole numbers of 1/64."""

_SIGN = 0.4
"""What a sign weighs of all that is asked, but never more than the heaviest of it."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Leaves that rank whatever has one of them above whatever has none, which scores `rest` at most."""

    leaves: frozenset[Leaf]
    rest: float


def rarity(total: int, matching: int, share: float) -> float:
    """Return a share of the inverse document frequency."""
    return rounded(share * math.log1p((total - matching + 0.5) / (matching + 0.5)))


def weight_of_sign(leaves: Sequence[float]) -> float:
    """Return the weight of a sign beside leaves of these weights, of which there is at least one."""
    return rounded(min(_SIGN * sum(leaves), max(leaves)))


def rounded(weight: float) -> float:
    """Round a weight so that sums are exact in 32 bits, but never to 0."""
    return max(1, round(weight * _STEPS)) / _STEPS


def expected(messages: int, query: Query, weights: Sequence[float]) -> Mapping[Leaf, float]:
    """Estimate in how many of a user's messages each leaf is found: a rarity is about ln(all / matching)."""
    leaves = zip(query.leaves, weights, strict=False)
    return {leaf: messages * math.exp(-weight / query.share(leaf)) for leaf, weight in leaves}


def expected_all(messages: int, query: Query, weights: Sequence[float]) -> float:
    """Estimate in how many messages all leaves are found, as if they were independent."""
    shares = expected(messages, query, weights).values()
    return messages * math.prod(found / max(messages, 1) for found in shares)


def telling(query: Query, weights: Sequence[float]) -> Telling | None:
    """Choose the fewest leaves that tell messages apart; None if that takes all of them."""
    heaviest = sorted(zip(query.leaves, weights, strict=False), key=lambda one: -one[1])
    least_worth = worth(FORMS[-1]) if query.by_form else 1.0
    rest = sum(weights)
    for place, (_, weight) in enumerate(heaviest[:-1], 1):
        rest -= weight
        if weight * least_worth > rest:
            return Telling(frozenset(leaf for leaf, _ in heaviest[:place]), rest)
    return None
