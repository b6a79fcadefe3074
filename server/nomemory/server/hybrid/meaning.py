"""How near messages are in meaning, from the list of the nearest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nomemory.server.hybrid.timeline import Floats, Timeline
from nomemory.server.vector.protocol import VectorHit

_BEYOND: Final = 0.8
"""Estimated distance of the farthest message beyond the last of a list, as a share of the list's own span."""
_UNSEEN: Final = 0.7
"""Estimated place, between that farthest message and the last of the list, of a message that is not in it."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The result of a search by meaning on a timeline: nearness 0 to 1, raw cosines, and which messages it found."""

    nearness: Floats
    cosines: Floats
    found: Floats


def meaning_of(timeline: Timeline, hits: Sequence[VectorHit], *, complete: bool) -> Meaning | None:
    """Read a list of the nearest messages, best first.

    Min-max over all messages of a user tells near from far best (docs/quality.md); from a list that ends early the far
    end is estimated.

    Args:
        timeline: the messages.
        hits: the list.
        complete: whether it holds all there are.

    Returns:
        None if the list is empty, but for versions that are gone.
    """
    listed = np.array([hit.score for hit in hits], dtype=np.float64)
    places, standing = timeline.located(np.array([hit.sequence for hit in hits], dtype=np.int64))
    if not standing.any():
        return None
    places, scores = places[standing], listed[standing]
    best, last = float(scores[0]), float(scores[-1])
    least = last if complete else last - _BEYOND * (best - last)
    unseen = least if complete else least + _UNSEEN * (last - least)
    cosines, found = np.full(len(timeline), unseen), np.zeros(len(timeline))
    cosines[places], found[places] = scores, 1.0
    span = best - least
    nearness = (cosines - least) / span if span > 0 else found
    return Meaning(nearness, np.where(found > 0, cosines, 0.0), found)
