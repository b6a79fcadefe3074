"""How well the words of a question are found in a message and right around it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from nomemory.server.hybrid.timeline import Floats, Ints, Timeline

_SATURATION: Final = 0.9
"""k1 of BM25: how soon further occurrences of a word count little."""
_OF_LENGTH: Final = 0.4
"""b of BM25: how much the length of a message counts."""
_RARITIES_KEPT: Final = 4096
"""A search weighs some thousand terms, of which most stand in few messages."""
_OF_QUESTION: Final = 5 / 3
"""Weight of a word in the question before a message, relative to one in another message beside it."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a term is found: in how many of the user's messages, and at which places of the timeline."""

    count: int
    places: Ints


@dataclass(frozen=True, slots=True)
class WordScores:
    """The scores of each message by words.

    `scores` are BM25 over the message and what stands beside it. `coverage` is the share, 0 to 1, of the weight of the
    question's terms that stand in the message itself. `has_terms` tells whether there was anything to look for.
    `unknown` is the share of that weight, 0 to 1, of terms that stand in none of the user's messages.
    """

    scores: Floats
    coverage: Floats
    has_terms: bool
    unknown: float = 0.0


@lru_cache(_RARITIES_KEPT)
def rarity(count: int, total: int) -> float:
    """Return the inverse document frequency, within the user."""
    return math.log1p((total - min(count, total) + 0.5) / (count + 0.5))


def word_scores(
    timeline: Timeline,
    found: Mapping[str, Found],
    total: int,
    beside: float,
    emphasis: Mapping[str, float] = MappingProxyType({}),
) -> WordScores:
    """Score the messages of a timeline by a question's terms.

    A term counts once in a message however often it stands there (as the index has it), `beside` for each of the
    messages that the message follows upon or is followed by, and once for who speaks, if it is their name.
    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), over those counts.

    Args:
        timeline: the messages.
        found: where each term is.
        total: how many messages the user has.
        beside: what a neighbour's word counts; one of a question before, which an answer leaves out, counts more.
        emphasis: how many times a term counts; once, unless it is in here.
    """
    scores, covered, weight, unknown = np.zeros(len(timeline)), np.zeros(len(timeline)), 0.0, 0.0
    room = 1 - _OF_LENGTH + _OF_LENGTH * timeline.lengths / timeline.lengths.mean()
    beside_each = _Neighbours.of(timeline)
    nobody = np.zeros(len(timeline))
    for term, posting in found.items():
        weight += rarity(posting.count, total)
        unknown += 0.0 if posting.count else rarity(0, total)
        if not len(posting.places) and term not in timeline.bearers:
            continue
        own = np.zeros(len(timeline))
        own[posting.places] = 1.0
        spoken = timeline.bearers.get(term, nobody)
        counts = beside_each.counted(own, beside) + spoken
        idf = rarity(posting.count + _bearers(timeline, spoken, own, total), total)
        scores += emphasis.get(term, 1.0) * idf * (1 + _SATURATION) * counts / (counts + _SATURATION * room)
        covered += rarity(posting.count, total) * np.maximum(own, spoken)
    return WordScores(scores, covered / weight if weight else covered, bool(found), unknown / weight if weight else 0.0)


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Which messages follow upon others, which these are, and what a word in these counts."""

    after: Ints
    before: Ints
    worth: Floats

    @classmethod
    def of(cls, timeline: Timeline) -> Self:
        after = np.flatnonzero(timeline.previous >= 0)
        before = timeline.previous[after]
        return cls(after, before, np.where(timeline.asking[before], _OF_QUESTION, 1.0))

    def counted(self, own: Floats, beside: float) -> Floats:
        """Count a term that stands once in some messages, there and beside them."""
        counts: Floats = own.copy()
        counts[self.after] += beside * own[self.before] * self.worth
        counts[self.before] += beside * own[self.after]
        return counts


def _bearers(timeline: Timeline, spoken: Floats, own: Floats, total: int) -> int:
    """Estimate how many messages have a name only because of who speaks, from the share of those in the timeline."""
    return round(float((spoken * (1 - own)).sum()) * total / max(len(timeline), 1))
