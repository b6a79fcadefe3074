"""Find pairs of found messages about the same matter: close in meaning, compared with all that was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

import numpy as np

from nomemory.server.embedding.vector import NUMBER, Vector
from nomemory.server.message import LoggedMessage
from nomemory.server.search.hybrid.candidate_messages import Floats
from nomemory.server.search.hybrid.term_scores import rarity

LOOKED_AT: Final = 20
"""Of the best messages, so many are compared with each other."""


LEAST_NEARNESS: Final = 1.0
"""Standard deviations below which two messages are no pair."""


_FEWEST: Final = 3
"""Fewer messages have no usual distance."""


_LEAST_DEVIATION: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Related:
    """A found message as it is compared: who spoke, and its distinct terms."""

    message: LoggedMessage
    speaker: tuple[int, str]
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Relation:
    """Two messages of one speaker.

    Attributes:
        earlier: the id of what was said first.
        later: the id of what was said last.
        nearness: how much nearer they are than what was found usually is to the earlier one, in standard deviations.
        shared: the share of words in common, 0 to 1, a rare word counting more.
    """

    earlier: str
    later: str
    nearness: float
    shared: float


def relations(found: Sequence[Related], vectors: Mapping[str, Vector]) -> list[Relation]:
    """Relate the messages that have a vector, in their order by time.

    Args:
        found: the best messages.
        vectors: of length one, by message id.
    """
    known = [item for item in found if item.message.message_id in vectors]
    if len(known) < _FEWEST:
        return []
    known.sort(key=lambda item: (item.message.ts_us, item.message.message_id))
    nearness = _nearness(np.stack([_numbers(vectors[item.message.message_id]) for item in known]))
    holding = Counter(chain.from_iterable(item.terms for item in found))
    by_count = {count: rarity(count, len(found)) for count in set(holding.values())}
    weights = {term: by_count[count] for term, count in holding.items()}
    return list(_pairs(known, nearness.tolist(), weights))


def _pairs(
    known: Sequence[Related], nearness: Sequence[Sequence[float]], weights: Mapping[str, float]
) -> Iterator[Relation]:
    heaviness = [_weight(item.terms, weights) for item in known]
    for (first, item), (second, other) in combinations(enumerate(known), 2):
        near = nearness[first][second]
        if near >= LEAST_NEARNESS and item.speaker == other.speaker:
            least = min(heaviness[first], heaviness[second])
            shared = _weight(item.terms & other.terms, weights) / least if least > 0 else 0.0
            yield Relation(item.message.message_id, other.message.message_id, near, shared)


def _nearness(numbers: Floats) -> Floats:
    """Return how near each message (column) is to each other one (row), in standard deviations over the row."""
    cosines = numbers @ numbers.T
    others = ~np.eye(len(cosines), dtype=np.bool_)
    background = cosines[others].reshape(len(cosines), -1)
    mean, deviation = background.mean(axis=1, keepdims=True), background.std(axis=1, keepdims=True)
    near: Floats = (cosines - mean) / np.maximum(deviation, _LEAST_DEVIATION)
    return near


def _weight(terms: frozenset[str], weights: Mapping[str, float]) -> float:
    return sum(map(weights.__getitem__, terms))


def _numbers(vector: Vector) -> Floats:
    return np.frombuffer(vector, dtype=NUMBER).astype(np.float64)
