"""Pseudo-relevance feedback: score messages that share rare terms with the best messages of a first ranking.

Example: the question is "The one who is 57, what does he do?". One message says that Uncle Li is 57, and another
message says that Uncle Li drives a bus. The message about the bus matches few terms of the question, but shares "Uncle
Li" with the message about the age.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Floats, Timeline
from nomemory.server.search.hybrid.term_occurrences import TermOccurrences
from nomemory.server.search.hybrid.term_scores import compute_idf

MAX_DOCUMENT_FREQUENCY: Final = 64
"""Terms in more messages of the user than this are ignored."""
_MAX_FEEDBACK: Final = 3
_TEMPERATURE: Final = 0.05
"""Temperature of the softmax over the scores of the best messages."""
_MIN_RELATIVE_WEIGHT: Final = 0.05
"""Messages with a smaller weight, relative to the best message, are ignored."""
_DECIMALS: Final = 6
"""Scores are rounded to this precision before they are compared."""
_MAX_TERMS: Final = 8
_TYPICAL_IDF: Final = 0.76
"""Average IDF of a message's terms, relative to the IDF of a term with document frequency 1."""
_CHARS_PER_TERM: Final = 5.0
"""Average number of characters per term, in Chinese and English."""


@dataclass(frozen=True, slots=True)
class FeedbackMessage:
    """A feedback message: its index as a candidate, its weight (all weights add up to at most 1), and its terms."""

    index: int
    weight: float
    terms: tuple[str, ...]


def select_feedback(timeline: Timeline, scores: Floats, excluded_terms: Collection[str]) -> list[FeedbackMessage]:
    """Select the best messages as feedback messages. If more than three messages share the best score, select none.

    `excluded_terms` are the terms to ignore: the terms of the question and of the authors' names.
    """
    rounded = np.round(scores, _DECIMALS)
    best = np.argsort(-rounded, kind="stable")[: _MAX_FEEDBACK + 1]
    if len(best) > _MAX_FEEDBACK:
        best = best[rounded[best] > rounded[best[-1]]]
    if not len(best):
        return []
    weights = np.exp((scores[best] - scores[best].max(initial=0.0)) / _TEMPERATURE)
    weights /= weights.sum()
    selected = [
        (int(index), float(weight))
        for index, weight in zip(best, weights, strict=True)
        if weight >= _MIN_RELATIVE_WEIGHT * weights[0]
    ]
    return [
        FeedbackMessage(
            index, weight, tuple(term for term in timeline.get_leading_terms(index) if term not in excluded_terms)
        )
        for index, weight in selected
    ]


def compute_feedback_scores(
    timeline: Timeline,
    feedback: Sequence[FeedbackMessage],
    occurrences: Mapping[str, TermOccurrences],
    total: int,
) -> Floats:
    """Return, for each message, the maximum of weight times IDF-weighted cosine over the feedback messages.

    `occurrences` contains the occurrences of the feedback terms. The message indexes of frequent terms may be missing.
    `total` is the number of messages of the user.
    """
    if not feedback:
        return np.zeros(len(timeline))
    squares = {term: compute_idf(item.document_frequency, total) ** 2 for term, item in occurrences.items()}
    norms = _TYPICAL_IDF * compute_idf(1, total) * np.sqrt(np.maximum(timeline.lengths / _CHARS_PER_TERM, 1.0))
    rare_terms = [_select_rarest_terms(message.terms, occurrences) for message in feedback]
    similarity = _compute_dot_products(timeline, rare_terms, occurrences, squares)
    similarity /= np.array([[_compute_vector_norm(message.terms, squares)] for message in feedback]) * norms
    similarity[np.arange(len(feedback)), [message.index for message in feedback]] = 1.0
    weights = np.array([[message.weight] for message in feedback])
    scores: Floats = (weights * np.minimum(similarity, 1.0)).max(axis=0, initial=0.0)
    return scores


def _compute_dot_products(
    timeline: Timeline,
    rare_terms: Sequence[Sequence[str]],
    occurrences: Mapping[str, TermOccurrences],
    squares: Mapping[str, float],
) -> Floats:
    """Return the sums of the squared IDFs of shared terms, as an array of shape (feedback messages, messages)."""
    rows = [(row * len(timeline), term) for row, terms in enumerate(rare_terms) for term in terms]
    if not rows:
        return np.zeros((len(rare_terms), len(timeline)))
    indexes = [occurrences[term].indexes for _, term in rows]
    sizes = list(map(len, indexes))
    cells = np.repeat([start for start, _ in rows], sizes) + np.concatenate(indexes)
    weights = np.repeat([squares[term] for _, term in rows], sizes)
    sums = np.bincount(cells, weights, len(rare_terms) * len(timeline))
    return sums.reshape(len(rare_terms), len(timeline)).astype(np.float64, copy=False)


def _select_rarest_terms(terms: Collection[str], occurrences: Mapping[str, TermOccurrences]) -> list[str]:
    """Return the rarest terms of a message that also occur in other messages."""
    rare = [
        (item.document_frequency, term)
        for term in terms
        if (item := occurrences.get(term)) and 1 < item.document_frequency <= MAX_DOCUMENT_FREQUENCY
    ]
    return [term for _, term in sorted(rare)[:_MAX_TERMS]]


def _compute_vector_norm(terms: Collection[str], squares: Mapping[str, float]) -> float:
    return math.sqrt(sum(squares[term] for term in terms if term in squares)) or 1.0
