"""At which places of a timeline terms stand: as an index says, or as its messages say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nomemory.server.hybrid.timeline import Ints, Timeline
from nomemory.server.lexical.protocol import Posting

_ANALYSED_CHARS: Final = 4_000
"""About how much is analysed in one go, which takes a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a term is found: in how many of the user's messages, and at which places of the timeline."""

    count: int
    places: Ints


def found_in(timeline: Timeline, postings: Mapping[str, Posting]) -> Mapping[str, Found]:
    """Return at which places of a timeline terms stand."""
    if not postings:
        return {}
    sequences = [one.sequences for one in postings.values()]
    places, standing = timeline.located(np.concatenate(sequences))
    bounds = np.cumsum([0, *map(len, sequences)])
    ends = np.concatenate([[0], np.cumsum(standing)])[bounds].tolist()
    places = places[standing]
    return {
        term: Found(one.count, places[start:end])
        for (term, one), start, end in zip(postings.items(), ends[:-1], ends[1:], strict=True)
    }


async def read_in(timeline: Timeline, terms: Sequence[str]) -> Mapping[str, Found]:
    """Read the messages of a whole timeline: what an index of them would say. Other calls run in between."""
    await _analysed(timeline)
    wanted = frozenset(terms)
    places: dict[str, list[int]] = {term: [] for term in terms}
    for place, standing in enumerate(map(wanted.intersection, timeline.terms)):
        for term in standing:
            places[term].append(place)
    return {term: Found(len(some), np.array(some, dtype=np.int64)) for term, some in places.items()}


async def _analysed(timeline: Timeline) -> None:
    if timeline.is_read:
        return
    chars = 0
    for place, one in enumerate(timeline.features):
        timeline.terms_at(place)
        chars += one.chars
        if chars >= _ANALYSED_CHARS:
            await asyncio.sleep(0)
            chars = 0
