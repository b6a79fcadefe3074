"""Compute term weights: the inverse document frequency within one user's messages.

Tantivy's own BM25 counts documents over all users, so another user's writes would change a user's scores. Weights are
multiples of 1/64, so that their sums are exact in 32-bit floats, regardless of the order of the additions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, count

from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, Query

_STEPS = 64
"""Weights are multiples of 1/64."""

_BOOST = 0.4
"""Weight of a speaker boost, as a share of the sum of all term weights. The maximum is the largest term weight."""


def compute_query_weights(
    query: Query, message_count: int, frequencies: Sequence[int], has_speaker: Iterable[bool]
) -> tuple[float, ...]:
    """Return the weights of a query's terms and phrases, then of its speaker boosts.

    `message_count` is the number of messages of the user, and `frequencies` contains the document frequency of each
    term and phrase among these messages. `has_speaker` yields, for each speaker boost, whether it applies to any
    message. Only the first boost that applies has a weight, and later items of `has_speaker` are not evaluated.
    """
    if not query.leaves:
        return ()
    leaves = [
        query.get_idf_factor(leaf) * _compute_idf(message_count, frequency)
        for leaf, frequency in zip(query.leaves, frequencies, strict=True)
    ]
    rounded = [_round_weight(weight) for weight in leaves]
    boost = _round_weight(min(_BOOST * sum(rounded), max(rounded)))
    boosted = next(compress(count(), has_speaker), -1)
    return (*rounded, *(boost if index == boosted else 0.0 for index in range(len(query.boosts))))


def estimate_leaf_shares(query: Query, weights: Sequence[float]) -> dict[Leaf, float]:
    """Estimate the share of the user's messages with each term or phrase, from IDF ≈ ln(messages / frequency)."""
    leaves = zip(query.leaves, weights, strict=False)
    return {leaf: math.exp(-weight / query.get_idf_factor(leaf)) for leaf, weight in leaves}


def estimate_match_share(node: Node, shares: Mapping[Leaf, float]) -> float:
    """Estimate the share of the user's messages that match a node, assuming that terms are independent."""
    match node:
        case Leaf():
            return shares[node]
        case AllOf(required):
            return math.prod(estimate_match_share(child, shares) for child in required)
        case AnyOf(parts):
            return min(1.0, sum(estimate_match_share(part, shares) for part in parts))


def _compute_idf(message_count: int, frequency: int) -> float:
    return math.log1p((message_count - frequency + 0.5) / (frequency + 0.5))


def _round_weight(weight: float) -> float:
    """Round a weight to a multiple of 1/64, at least 1/64."""
    return max(1, round(weight * _STEPS)) / _STEPS
