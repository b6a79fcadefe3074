"""The rarity of words in a user's messages: weights, and estimates of how much a search finds.

Tantivy's own BM25 counts documents over all users, so another user's writes would move a user's scores. Weights are
rounded to 1/64, so that sums are exact in 32 bits in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count

from nomemory.server.lexical.form import FORMS, worth
from nomemory.server.lexical.query.tree import Leaf, Query

_STEPS = 64
"""Weights are whole numbers of 1/64."""

_SIGN = 0.4
"""What a sign weighs of all that is asked, but never more than the heaviest of it."""


@dataclass(frozen=True, slots=True)
class EssentialLeaves:
    """Leaves that rank whatever has one of them above whatever has none, which scores `rest` at most."""

    leaves: frozenset[Leaf]
    rest: float


def rarity(total: int, matching: int, share: float) -> float:
    """Return a share of the inverse document frequency."""
    return rounded(share * math.log1p((total - matching + 0.5) / (matching + 0.5)))


def weights_of(query: Query, messages: int, counts: Sequence[int], borne: Iterable[bool]) -> tuple[float, ...]:
    """Return the weights of a query's leaves, then of its signs: of these the first weighs that a message bears.

    Args:
        query: what is asked for.
        messages: how many the user has.
        counts: in how many of them each leaf is found.
        borne: whether any of them bears each sign; it is not asked further than need be.
    """
    if not query.leaves:
        return ()
    counted = zip(query.leaves, counts, strict=True)
    leaves = [rarity(messages, matching, query.share(leaf)) for leaf, matching in counted]
    first, weight = next(compress(count(), borne), -1), rounded(min(_SIGN * sum(leaves), max(leaves)))
    return (*leaves, *(weight if place == first else 0.0 for place in range(len(query.signs))))


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


def essential_leaves(query: Query, weights: Sequence[float]) -> EssentialLeaves | None:
    """Choose the fewest leaves of which the best messages have to have one; None if that takes all of them."""
    heaviest = sorted(zip(query.leaves, weights, strict=False), key=lambda one: -one[1])
    least_worth = worth(FORMS[-1]) if query.by_form else 1.0
    rest = sum(weights)
    for place, (_, weight) in enumerate(heaviest[:-1], 1):
        rest -= weight
        if weight * least_worth > rest:
            return EssentialLeaves(frozenset(leaf for leaf, _ in heaviest[:place]), rest)
    return None
