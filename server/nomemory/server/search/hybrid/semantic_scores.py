"""Compute the semantic scores of the candidate messages from the hits of a semantic search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Floats, Timeline
from nomemory.server.search.hybrid.semantic_hits import SemanticHits

_TAIL: Final = 0.8
"""Estimated distance between the last hit of an incomplete list and the user's least similar message, as a share of the
list's range."""


_UNLISTED: Final = 0.7
"""Estimated score of an unlisted message between the user's least similar message (0) and the last hit (1)."""


_MIN_DEVIATION: Final = 1e-9


@dataclass(frozen=True)
class SemanticScores:
    """Semantic scores of the candidate messages.

    Attributes:
        normalized_cosines: min-max normalized cosines; the most similar message has the value 1.
        cosines: cosine similarities; 0 for messages that semantic search did not return.
        is_hit: 1 for messages that semantic search returned, 0 for other messages.
        mean: the estimated mean cosine of all messages of the user.
        deviation: the estimated standard deviation of the cosines of all messages of the user.
        count: the number of messages of the user.
    """

    normalized_cosines: Floats
    cosines: Floats
    is_hit: Floats
    mean: float
    deviation: float
    count: int

    @cached_property
    def z_scores(self) -> Floats:
        """The cosines, in standard deviations above the mean; 0 for messages that semantic search did not return."""
        return np.where(self.is_hit > 0, (self.cosines - self.mean) / max(self.deviation, _MIN_DEVIATION), 0.0)


def compute_semantic_scores(timeline: Timeline, semantic_hits: SemanticHits, *, total: int) -> SemanticScores | None:
    """Score the candidate messages by the hits of a semantic search.

    Min-max normalization over all messages of a user gives the best rankings (docs/quality.md). If the search returned
    only part of the user's messages, the minimum cosine is estimated.

    `semantic_hits` contains the hits in the whole time range, and the hits in periods, which may have lower scores.
    `total` is the number of messages of the user.

    Returns:
        The scores; None if no hit in the whole time range is a candidate message.
    """
    hits, is_complete = semantic_hits.overall_hits, semantic_hits.is_complete
    hit_scores = np.array([hit.score for hit in hits], dtype=np.float64)
    indexes, is_present = timeline.locate_versions(np.array([hit.sequence for hit in hits], dtype=np.int64))
    if not is_present.any():
        return None
    indexes, scores = indexes[is_present], hit_scores[is_present]
    best, last = float(scores[0]), float(scores[-1])
    minimum = last if is_complete else last - _TAIL * (best - last)
    unlisted_score = minimum if is_complete else minimum + _UNLISTED * (last - minimum)
    cosines, is_hit = np.full(len(timeline), unlisted_score), np.zeros(len(timeline))
    if semantic_hits.period_hits:
        in_period, present = timeline.locate_versions(
            np.array([hit.sequence for hit in semantic_hits.period_hits], dtype=np.int64)
        )
        cosines[in_period[present]] = np.array([hit.score for hit in semantic_hits.period_hits])[present]
        is_hit[in_period[present]] = 1.0
    cosines[indexes], is_hit[indexes] = scores, 1.0
    span = best - minimum
    normalized = np.clip((cosines - minimum) / span, 0.0, None) if span > 0 else is_hit
    missing_count = 0 if is_complete else max(0, total - len(scores))
    mean, deviation = _compute_mean_and_deviation(scores, unlisted_score, missing_count)
    return SemanticScores(normalized, np.where(is_hit > 0, cosines, 0.0), is_hit, mean, deviation, total)


def _compute_mean_and_deviation(scores: Floats, missing_score: float, missing_count: int) -> tuple[float, float]:
    """Return the mean and standard deviation of `scores` and of `missing_count` scores that equal `missing_score`."""
    count = len(scores) + missing_count
    mean = (float(scores.sum()) + missing_count * missing_score) / count
    squares = float(((scores - mean) ** 2).sum()) + missing_count * (missing_score - mean) ** 2
    return mean, math.sqrt(squares / count)
