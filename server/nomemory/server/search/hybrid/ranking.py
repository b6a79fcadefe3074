"""Rank the messages of a timeline for one sentence that asks: matches, speakers, dates and surrounding messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from nomemory.server.message import Role
from nomemory.server.search.hybrid.candidate_messages import Flags, Floats, Timeline
from nomemory.server.search.hybrid.query_analysis import ParsedQuestion
from nomemory.server.search.hybrid.weights import Weights
from nomemory.text.time_range import TimeRange

_BEST_OF_CONVERSATION: Final = 2
_LARGEST_SHARE: Final = 0.5
"""A conversation with a larger share of the messages is not taken for one talk."""


_DAY_US: Final = 86_400e6
_DAYS_AFTER: Final = 7.0
"""What happens on a date is spoken of for days; a message of so many days later counts a third."""


_DAYS_BEFORE: Final = 1.0
_LONG_DAYS: Final = 300.0
"""A range longer than this, a year, says half as much."""


_OUTSIDE: Final = 0.6
"""What a message right outside a period counts, relative to one within."""
_HALF: Final = 0.5
CHAIN: Final = 8
"""How far it is followed that what takes something back is taken back itself."""


_STEP_BACK: Final = 0.1
"""How much less what was taken back scores than before, and so than what took it back."""


@dataclass(frozen=True, slots=True)
class Match:
    """What a sentence finds in each message: nearness 0 to 1 (None: meaning had no part), and what its words score."""

    meaning: Floats | None
    words: Floats


@dataclass(frozen=True, slots=True)
class Ranking:
    """A score for each message of a timeline, and the components that add up to it."""

    scores: Floats
    components: Mapping[str, Floats]

    def scaled(self) -> Ranking:
        """Return the same ranking with 1 as the best score."""
        best = float(self.scores.max(initial=0.0))
        if best <= 0:
            return self
        return ranking({name: values / best for name, values in self.components.items()})

    def plus(self, **components: Floats) -> Ranking:
        """Return the ranking with more components."""
        return ranking({**self.components, **components})


def ranking(components: Mapping[str, Floats]) -> Ranking:
    """Make a ranking out of its components."""
    return Ranking(reduce(np.add, components.values()), components)


def matched(match: Match, weights: Weights) -> Ranking:
    """Rank by what matches alone."""
    words = _scaled(match.words)
    if match.meaning is None or not weights.meaning:
        return ranking({"words": words})
    return ranking({"meaning": weights.meaning * match.meaning, "words": (1 - weights.meaning) * words})


def preferred(timeline: Timeline, asked: ParsedQuestion, weights: Weights) -> Mapping[str, Floats]:
    """Return what a message is worth whatever matches: who spoke, when, and whether it names something."""
    parts: dict[str, Floats] = {
        "speaker": np.where(of_asked(timeline, asked), weights.speaker, 0.0),
        "concrete": np.where(timeline.concrete, weights.concrete, 0.0),
    }
    if asked.date_ranges:
        near = [_on_dates(timeline, date_range) for date_range in asked.date_ranges]
        parts["dates"] = weights.dates * np.max(near, axis=0)
    if asked.reading.asks_when:
        parts["occasion"] = weights.occasion * timeline.when
    return parts


def in_talk(timeline: Timeline, base: Ranking, weights: Weights) -> Ranking:
    """Let the talk around a message bear on its rank: the question before it, its neighbours, its conversation."""
    base = base.scaled()
    scores = base.scores
    return base.plus(
        answers=weights.answers * _questions_before(timeline, scores),
        asks=np.where(timeline.saying_little, -weights.asks, 0.0),
        around=weights.around * _around(timeline, scores),
        conversation=weights.conversation * _of_conversation(timeline, scores),
    ).scaled()


def corrected(timeline: Timeline, base: Ranking) -> Ranking:
    """Let what was taken back stand behind what took it back, which gets at least the score that it had."""
    if not timeline.retracted.any():
        return base
    taken, takers = timeline.retractions
    scores, steps = base.scores.copy(), timeline.retracted.astype(np.float64)
    for _ in range(CHAIN):
        np.maximum.at(scores, takers, scores[taken])
        np.maximum.at(steps, taken, steps[takers] + 1)
    return base.plus(retracts=scores - base.scores, retracted=-_STEP_BACK * steps)


def of_asked(timeline: Timeline, asked: ParsedQuestion) -> Flags:
    """Mark the messages of those asked about; of nobody, where that cannot be told."""
    if asked.persons:
        sent = np.isin(timeline.spoken_by, places_of(asked, timeline))
        by_user = timeline.by(Role.USER)
        is_own_name = not timeline.is_named and bool(sent.any()) and not bool((sent & ~by_user).any())
        return by_user if is_own_name else sent
    if asked.of_user and (asked.reading.first_person or not timeline.is_named):
        return timeline.by(Role.USER)
    if asked.of_assistant and not timeline.is_named:
        return timeline.by(Role.ASSISTANT)
    return np.zeros(len(timeline), dtype=np.bool_)


def places_of(asked: ParsedQuestion, timeline: Timeline) -> list[int]:
    """Return the places, among a timeline's speakers, of those whom a question names."""
    return [place for place, name in enumerate(timeline.speakers) if name in asked.persons]


def _on_dates(timeline: Timeline, dates: TimeRange) -> Floats:
    since = dates.since.timestamp() * 1e6 if dates.since else -np.inf
    until = dates.until.timestamp() * 1e6 if dates.until else np.inf
    early = np.maximum(since - timeline.ts_us, 0) / _DAY_US
    late = np.maximum(timeline.ts_us - until, 0) / _DAY_US
    near: Floats = np.exp(-early / _DAYS_BEFORE) * np.exp(-late / _DAYS_AFTER)
    outside = (early > 0) | (late > 0)
    near = np.where(outside, _OUTSIDE * near, near)
    return near * (_HALF if (until - since) / _DAY_US > _LONG_DAYS else 1.0)


def _questions_before(timeline: Timeline, scores: Floats) -> Floats:
    before = timeline.previous
    asked = (before >= 0) & timeline.asking[before]
    return np.where(asked, scores[before], 0.0)


def _around(timeline: Timeline, scores: Floats) -> Floats:
    """Return the mean score of the messages around each: it says what the talk is about at that point."""
    means, (first, after) = np.zeros(len(timeline)), timeline.windows
    sums = np.concatenate([[0.0], np.cumsum(scores[timeline.grouped])])
    means[timeline.grouped] = (sums[after] - sums[first]) / (after - first)
    return means


def _of_conversation(timeline: Timeline, scores: Floats) -> Floats:
    worth, sizes, of_talk = np.zeros(len(timeline)), timeline.sizes, timeline.talks
    ordered = scores[timeline.grouped]
    ordered = ordered[np.lexsort((-ordered, of_talk))]
    is_unit = (sizes >= _BEST_OF_CONVERSATION) & (sizes < _LARGEST_SHARE * len(timeline))
    first = np.cumsum(sizes)[is_unit] - sizes[is_unit]
    means = np.zeros(len(sizes))
    means[is_unit] = np.mean([ordered[first + place] for place in range(_BEST_OF_CONVERSATION)], axis=0)
    worth[timeline.grouped] = means[of_talk]
    return worth


def _scaled(values: Floats) -> Floats:
    best = float(values.max(initial=0.0))
    return values / best if best > 0 else values
