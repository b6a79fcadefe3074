"""Find relations between the best messages: pairs by the same author whose similarity is well above the average."""

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
from nomemory.server.search.hybrid.term_scores import compute_idf

MAX_COMPARED: Final = 20
"""Number of the best messages that are compared with each other."""


MIN_Z_SCORE: Final = 1.0
"""Minimum similarity of a pair, in standard deviations above the mean."""


_MIN_MESSAGES: Final = 3
"""With fewer messages, there is no meaningful mean similarity."""


_MIN_DEVIATION: Final = 1e-9


@dataclass(frozen=True, slots=True)
class ComparedMessage:
    """A message with its author (role and name) and its distinct terms."""

    message: LoggedMessage
    speaker: tuple[int, str]
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Relation:
    """A pair of related messages of one author.

    Attributes:
        earlier_id: the id of the older message.
        later_id: the id of the newer message.
        z_score: the similarity of the pair, in standard deviations above the mean similarity of the candidates to the
            older message.
        shared_terms: the IDF-weighted share of the terms that the two messages have in common, 0 to 1.
    """

    earlier_id: str
    later_id: str
    z_score: float
    shared_terms: float


def find_relations(candidates: Sequence[ComparedMessage], vectors: Mapping[str, Vector]) -> list[Relation]:
    """Return the related pairs among the messages that have a vector, in time order.

    `vectors` maps message ids to unit vectors.
    """
    compared = [item for item in candidates if item.message.message_id in vectors]
    if len(compared) < _MIN_MESSAGES:
        return []
    compared.sort(key=lambda item: (item.message.ts_us, item.message.message_id))
    z_scores = _compute_z_scores(np.stack([_to_array(vectors[item.message.message_id]) for item in compared]))
    document_frequencies = Counter(chain.from_iterable(item.terms for item in candidates))
    idf_by_frequency = {count: compute_idf(count, len(candidates)) for count in set(document_frequencies.values())}
    weights = {term: idf_by_frequency[count] for term, count in document_frequencies.items()}
    return list(_find_pairs(compared, z_scores.tolist(), weights))


def _find_pairs(
    compared: Sequence[ComparedMessage], z_scores: Sequence[Sequence[float]], weights: Mapping[str, float]
) -> Iterator[Relation]:
    totals = [_compute_total_weight(item.terms, weights) for item in compared]
    for (first, earlier), (second, later) in combinations(enumerate(compared), 2):
        z_score = z_scores[first][second]
        if z_score >= MIN_Z_SCORE and earlier.speaker == later.speaker:
            smaller = min(totals[first], totals[second])
            shared = _compute_total_weight(earlier.terms & later.terms, weights) / smaller if smaller > 0 else 0.0
            yield Relation(earlier.message.message_id, later.message.message_id, z_score, shared)


def _compute_z_scores(vectors: Floats) -> Floats:
    """Return the matrix of pairwise similarities, in standard deviations above the mean of the row."""
    cosines = vectors @ vectors.T
    off_diagonal = ~np.eye(len(cosines), dtype=np.bool_)
    background = cosines[off_diagonal].reshape(len(cosines), -1)
    mean, deviation = background.mean(axis=1, keepdims=True), background.std(axis=1, keepdims=True)
    z_scores: Floats = (cosines - mean) / np.maximum(deviation, _MIN_DEVIATION)
    return z_scores


def _compute_total_weight(terms: frozenset[str], weights: Mapping[str, float]) -> float:
    return sum(map(weights.__getitem__, terms))


def _to_array(vector: Vector) -> Floats:
    return np.frombuffer(vector, dtype=NUMBER).astype(np.float64)
