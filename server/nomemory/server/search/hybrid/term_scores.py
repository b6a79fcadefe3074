"""Score how well the terms of a question match a message and the messages around it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Floats, Ints, Timeline
from nomemory.server.search.hybrid.term_occurrences import Found

_SATURATION: Final = 0.9
"""k1 of BM25: how soon further occurrences of a word count little."""


_OF_LENGTH: Final = 0.4
"""b of BM25: how much the length of a message counts."""


_IDF_EXPONENT: Final = 2
"""A name that most of a log carries, such as the user's own, weighs next to nothing at 2."""
_RARITIES_KEPT: Final = 4096
"""A search weighs some thousand terms, of which most stand in few messages."""


_OF_QUESTION: Final = 5 / 3
"""Weight of a word in the question before a message, relative to one in another message beside it."""


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
    weight = unknown = 0.0
    for item in found.values():
        weight += rarity(item.count, total)
        unknown += 0.0 if item.count else rarity(0, total)
    held = {term: item for term, item in found.items() if len(item.places) or term in timeline.bearers}
    own, spoken = _own(timeline, held.values()), _spoken(timeline, held)
    counts = _Neighbours.of(timeline).counted(own, beside) + spoken
    room = 1 - _OF_LENGTH + _OF_LENGTH * timeline.lengths / timeline.mean_length
    bearers = [_bearers(timeline, *item, total) for item in zip(held, spoken, own, strict=True)]
    idf = [rarity(item.count + more, total) for item, more in zip(held.values(), bearers, strict=True)]
    worths = [
        emphasis.get(term, 1.0) * each**_IDF_EXPONENT * (1 + _SATURATION) for term, each in zip(held, idf, strict=True)
    ]
    scores = _sum(timeline, _column(worths) * counts / (counts + _SATURATION * room))
    rarities = _column([rarity(item.count, total) for item in held.values()])
    covered = _sum(timeline, rarities * np.maximum(own, spoken))
    return WordScores(scores, covered / weight if weight else covered, bool(found), unknown / weight if weight else 0.0)


def _column(numbers: Sequence[float]) -> Floats:
    return np.array(numbers, dtype=np.float64)[:, np.newaxis]


def _sum(timeline: Timeline, rows: Floats) -> Floats:
    """Add up rows, one after the other: in another order a sum of floats is another one."""
    total = np.zeros(len(timeline))
    for row in rows:
        total += row
    return total


def _own(timeline: Timeline, found: Collection[Found]) -> Floats:
    """Return for each term (row) 1 where a message (column) has it."""
    own = np.zeros((len(found), len(timeline)))
    for row, item in enumerate(found):
        own[row, item.places] = 1.0
    return own


def _spoken(timeline: Timeline, terms: Collection[str]) -> Floats:
    """Return for each term (row) 1 where somebody speaks whose name has it."""
    spoken = np.zeros((len(terms), len(timeline)))
    for row, term in enumerate(terms):
        if term in timeline.bearers:
            spoken[row] = timeline.bearers[term]
    return spoken


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Which messages follow upon others, which these are, and what a word in these counts."""

    after: Ints
    before: Ints
    worth: Floats

    @classmethod
    def of(cls, timeline: Timeline) -> Self:
        after = timeline.followers
        before = timeline.previous[after]
        return cls(after, before, np.where(timeline.asking[before], _OF_QUESTION, 1.0))

    def counted(self, own: Floats, beside: float) -> Floats:
        """Count terms (rows) that stand once in some messages (columns), there and beside them."""
        counts: Floats = own.copy()
        counts[:, self.after] += beside * own[:, self.before] * self.worth
        counts[:, self.before] += beside * own[:, self.after]
        return counts


def _bearers(timeline: Timeline, term: str, spoken: Floats, own: Floats, total: int) -> int:
    """Estimate how many messages have a name only because of who speaks, from the share of those in the timeline."""
    if term not in timeline.bearers:
        return 0
    return round(float((spoken * (1 - own)).sum()) * total / max(len(timeline), 1))
