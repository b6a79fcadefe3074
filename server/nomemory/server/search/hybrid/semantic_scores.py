"""Score how near each message of a timeline is in meaning, from the list of the nearest messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Floats, Timeline
from nomemory.server.search.hybrid.nearest import NearestMessages

_BEYOND: Final = 0.8
"""Estimated distance of the farthest message beyond the last of a list, as a share of the list's own span."""


_UNSEEN: Final = 0.7
"""Estimated place, between that farthest message and the last of the list, of a message that is not in it."""


_LEAST_DEVIATION: Final = 1e-9


@dataclass(frozen=True)
class Meaning:
    """What a search by meaning says of a timeline.

    Attributes:
        nearness: 0 to 1.
        cosines: raw; 0 where the search found nothing.
        found: 1 for the messages that it found.
        mean: of the cosines of all of the user's messages.
        deviation: the standard deviation of the same.
        count: how many messages these are.
    """

    nearness: Floats
    cosines: Floats
    found: Floats
    mean: float
    deviation: float
    count: int

    @cached_property
    def deviations(self) -> Floats:
        """How much nearer each message is than the user's messages usually are, in standard deviations."""
        return np.where(self.found > 0, (self.cosines - self.mean) / max(self.deviation, _LEAST_DEVIATION), 0.0)


def meaning_of(timeline: Timeline, nearest: NearestMessages, *, complete: bool, total: int) -> Meaning | None:
    """Read a list of the nearest messages, best first.

    Min-max over all messages of a user tells near from far best (docs/quality.md); from a list that ends early the far
    end is estimated.

    Args:
        timeline: the messages.
        nearest: the list, and the hits within periods, which may score lower.
        complete: whether it holds all there are.
        total: how many messages the user has.

    Returns:
        None if the list is empty, but for versions that are gone.
    """
    hits = nearest.overall
    listed = np.array([hit.score for hit in hits], dtype=np.float64)
    places, standing = timeline.located(np.array([hit.sequence for hit in hits], dtype=np.int64))
    if not standing.any():
        return None
    places, scores = places[standing], listed[standing]
    best, last = float(scores[0]), float(scores[-1])
    least = last if complete else last - _BEYOND * (best - last)
    unseen = least if complete else least + _UNSEEN * (last - least)
    cosines, found = np.full(len(timeline), unseen), np.zeros(len(timeline))
    if nearest.in_periods:
        in_period, present = timeline.located(np.array([hit.sequence for hit in nearest.in_periods], dtype=np.int64))
        cosines[in_period[present]] = np.array([hit.score for hit in nearest.in_periods])[present]
        found[in_period[present]] = 1.0
    cosines[places], found[places] = scores, 1.0
    span = best - least
    nearness = np.clip((cosines - least) / span, 0.0, None) if span > 0 else found
    missing = 0 if complete else max(0, total - len(scores))
    mean, deviation = _spread(scores, unseen, missing)
    return Meaning(nearness, np.where(found > 0, cosines, 0.0), found, mean, deviation, len(scores) + missing)


def _spread(scores: Floats, unseen: float, missing: int) -> tuple[float, float]:
    """Return mean and standard deviation, taking so many missing messages to score `unseen`."""
    count = len(scores) + missing
    mean = (float(scores.sum()) + missing * unseen) / count
    squares = float(((scores - mean) ** 2).sum()) + missing * (unseen - mean) ** 2
    return mean, math.sqrt(squares / count)
