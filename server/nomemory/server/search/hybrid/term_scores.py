"""Compute the lexical scores of the candidate messages: BM25 over a message and its previous and next message."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Floats, Ints, Timeline
from nomemory.server.search.hybrid.term_occurrences import TermOccurrences

_K1: Final = 0.9
"""k1 of BM25: saturation of the term frequency."""


_B: Final = 0.4
"""b of BM25: strength of the length normalization."""


_IDF_EXPONENT: Final = 2
"""With 2, a name in most of the user's messages, such as the user's own name, has almost no weight."""
_CACHED_IDFS: Final = 4096
"""A search computes the IDF of thousands of terms, most with a low document frequency."""


_QUESTION_BOOST: Final = 5 / 3
"""Weight of a term in the previous message if that is a question, relative to other neighbors."""


@dataclass(frozen=True, slots=True)
class TermScores:
    """Lexical scores of the candidate messages for one sentence of the question.

    Attributes:
        scores: BM25 scores, including terms in the previous and next message.
        coverage: the IDF-weighted share of the query terms in the message itself, 0 to 1.
        has_terms: whether the sentence has query terms.
        unknown_share: the IDF-weighted share of the query terms that no message of the user contains, 0 to 1.
    """

    scores: Floats
    coverage: Floats
    has_terms: bool
    unknown_share: float = 0.0


@lru_cache(_CACHED_IDFS)
def compute_idf(document_frequency: int, total: int) -> float:
    """Return the inverse document frequency of a term among `total` messages."""
    return math.log1p((total - min(document_frequency, total) + 0.5) / (document_frequency + 0.5))


def compute_term_scores(
    timeline: Timeline,
    occurrences: Mapping[str, TermOccurrences],
    total: int,
    neighbor_weight: float,
    term_weights: Mapping[str, float] = MappingProxyType({}),
) -> TermScores:
    """Score the candidate messages by the terms of a sentence.

    A term has the frequency 1 in the message itself, `neighbor_weight` in the previous and in the next message, and 1
    in the author's name. The formula is from Robertson and Zaragoza, The Probabilistic Relevance Framework (2009).

    `total` is the number of messages of the user. Terms of a preceding question have a higher weight, because answers
    rarely repeat the terms of the question. `term_weights` maps terms to additional weight factors.
    """
    weight = unknown = 0.0
    for item in occurrences.values():
        weight += compute_idf(item.document_frequency, total)
        unknown += 0.0 if item.document_frequency else compute_idf(0, total)
    present = {term: item for term, item in occurrences.items() if len(item.indexes) or term in timeline.name_terms}
    in_content, in_name = _build_content_matrix(timeline, present.values()), _build_name_matrix(timeline, present)
    frequencies = _NeighborPairs.from_timeline(timeline).add_neighbor_terms(in_content, neighbor_weight) + in_name
    length_norm = 1 - _B + _B * timeline.lengths / timeline.mean_length
    by_name_only = [
        _estimate_name_matches(timeline, *item, total) for item in zip(present, in_name, in_content, strict=True)
    ]
    idfs = [
        compute_idf(item.document_frequency + more, total)
        for item, more in zip(present.values(), by_name_only, strict=True)
    ]
    weights = [
        term_weights.get(term, 1.0) * each**_IDF_EXPONENT * (1 + _K1) for term, each in zip(present, idfs, strict=True)
    ]
    scores = _sum_rows(timeline, _to_column(weights) * frequencies / (frequencies + _K1 * length_norm))
    content_idfs = _to_column([compute_idf(item.document_frequency, total) for item in present.values()])
    covered = _sum_rows(timeline, content_idfs * np.maximum(in_content, in_name))
    return TermScores(
        scores, covered / weight if weight else covered, bool(occurrences), unknown / weight if weight else 0.0
    )


def _to_column(numbers: Sequence[float]) -> Floats:
    return np.array(numbers, dtype=np.float64)[:, np.newaxis]


def _sum_rows(timeline: Timeline, rows: Floats) -> Floats:
    """Sum the rows of a matrix in order, because the order of floating-point additions affects the result."""
    total = np.zeros(len(timeline))
    for row in rows:
        total += row
    return total


def _build_content_matrix(timeline: Timeline, occurrences: Collection[TermOccurrences]) -> Floats:
    """Return an array of shape (terms, messages); 1 marks the messages that contain a term."""
    matrix = np.zeros((len(occurrences), len(timeline)))
    for row, item in enumerate(occurrences):
        matrix[row, item.indexes] = 1.0
    return matrix


def _build_name_matrix(timeline: Timeline, terms: Collection[str]) -> Floats:
    """Return an array of shape (terms, messages); 1 marks the messages whose author's name contains a term."""
    matrix = np.zeros((len(terms), len(timeline)))
    for row, term in enumerate(terms):
        if term in timeline.name_terms:
            matrix[row] = timeline.name_terms[term]
    return matrix


@dataclass(frozen=True, slots=True)
class _NeighborPairs:
    """Pairs of adjacent messages, as indexes, and a weight for the terms of each pair's earlier message."""

    later: Ints
    earlier: Ints
    weights: Floats

    @classmethod
    def from_timeline(cls, timeline: Timeline) -> Self:
        later = timeline.follower_indexes
        earlier = timeline.previous_indexes[later]
        return cls(later, earlier, np.where(timeline.ends_with_question[earlier], _QUESTION_BOOST, 1.0))

    def add_neighbor_terms(self, in_content: Floats, neighbor_weight: float) -> Floats:
        """Add the weighted terms of neighbors to the term frequencies, an array of shape (terms, messages)."""
        frequencies: Floats = in_content.copy()
        frequencies[:, self.later] += neighbor_weight * in_content[:, self.earlier] * self.weights
        frequencies[:, self.earlier] += neighbor_weight * in_content[:, self.later]
        return frequencies


def _estimate_name_matches(timeline: Timeline, term: str, in_name: Floats, in_content: Floats, total: int) -> int:
    """Estimate from the candidate messages how many messages of the user have a term only in the author's name."""
    if term not in timeline.name_terms:
        return 0
    return round(float((in_name * (1 - in_content)).sum()) * total / max(len(timeline), 1))
