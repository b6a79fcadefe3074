"""Term weights: the inverse document frequency within one user's messages.

Tantivy's own BM25 counts documents over all users, so another user's writes would move a user's scores. Weights are
rounded to 1/64, so that their sums are exact in 32 bits, whatever their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, count

from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, Query

_STEPS = 64
"""Weights are whole numbers of 1/64."""

_BOOST = 0.4
"""Weight of a speaker boost, as a share of the sum of all term weights. It is at most the greatest of them."""


def query_weights(
    query: Query, messages: int, frequencies: Sequence[int], has_speaker: Iterable[bool]
) -> tuple[float, ...]:
    """Return the weights of a query's leaves, then of its speaker boosts.

    Args:
        query: the query.
        messages: number of the user's messages.
        frequencies: the document frequency of each leaf within the user.
        has_speaker: whether any message gets each speaker boost. Only the first one that does has a weight; the rest
            is not iterated.
    """
    if not query.leaves:
        return ()
    leaves = [
        query.factor(leaf) * _idf(messages, frequency)
        for leaf, frequency in zip(query.leaves, frequencies, strict=True)
    ]
    rounded = [_rounded(weight) for weight in leaves]
    boost = _rounded(min(_BOOST * sum(rounded), max(rounded)))
    boosted = next(compress(count(), has_speaker), -1)
    return (*rounded, *(boost if index == boosted else 0.0 for index in range(len(query.boosts))))


def estimated_shares(query: Query, weights: Sequence[float]) -> dict[Leaf, float]:
    """Estimate the share of the user's messages that have each leaf: an IDF is about ln(messages / frequency)."""
    leaves = zip(query.leaves, weights, strict=False)
    return {leaf: math.exp(-weight / query.factor(leaf)) for leaf, weight in leaves}


def estimated_share(node: Node, shares: Mapping[Leaf, float]) -> float:
    """Estimate the share of the user's messages that match a node, as if leaves were independent."""
    match node:
        case Leaf():
            return shares[node]
        case AllOf(wanted):
            return math.prod(estimated_share(child, shares) for child in wanted)
        case AnyOf(parts):
            return min(1.0, sum(estimated_share(part, shares) for part in parts))


def _idf(messages: int, frequency: int) -> float:
    return math.log1p((messages - frequency + 0.5) / (frequency + 0.5))


def _rounded(weight: float) -> float:
    """Round a weight so that sums are exact in 32 bits, but never to 0."""
    return max(1, round(weight * _STEPS)) / _STEPS
