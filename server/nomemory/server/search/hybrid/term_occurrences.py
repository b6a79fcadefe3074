"""Find the messages of a timeline that contain a term, from an index or from the messages themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Ints, Timeline
from nomemory.server.search.lexical.protocol import Posting


@dataclass(frozen=True, slots=True)
class Found:
    """Where a term is found: in how many of the user's messages, and at which places of the timeline."""

    count: int
    places: Ints


def found_in(timeline: Timeline, postings: Mapping[str, Posting]) -> Mapping[str, Found]:
    """Return at which places of a timeline terms stand."""
    if not postings:
        return {}
    sequences = [posting.sequences for posting in postings.values()]
    places, standing = timeline.located(np.concatenate(sequences))
    bounds = np.cumsum([0, *map(len, sequences)])
    ends = np.concatenate([[0], np.cumsum(standing)])[bounds].tolist()
    places = places[standing]
    return {
        term: Found(item.count, places[start:end])
        for (term, item), start, end in zip(postings.items(), ends[:-1], ends[1:], strict=True)
    }


def read_in(timeline: Timeline, terms: Sequence[str]) -> Mapping[str, Found]:
    """Return at which places of a whole timeline terms stand, from its messages instead of an index."""
    wanted = frozenset(terms)
    places: dict[str, list[int]] = {term: [] for term in terms}
    for place, standing in enumerate(map(wanted.intersection, timeline.terms)):
        for term in standing:
            places[term].append(place)
    return {term: Found(len(some), np.array(some, dtype=np.int64)) for term, some in places.items()}
