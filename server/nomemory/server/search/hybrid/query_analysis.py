"""A question parsed for one user's log: the terms of each sentence that asks, and the speakers that it names.

How near messages are in meaning, from the list of the nearest ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Floats, Timeline
from nomemory.server.search.semantic.protocol import VectorHit
from nomemory.text.analysis import streams
from nomemory.text.language import Language, language_of
from nomemory.text.names import beginning, beginnings, without_speakers
from nomemory.text.question_reading import QuestionReading
from nomemory.text.question_words import without_asking_words
from nomemory.text.time_expressions import Precision
from nomemory.text.time_range import TimeRange

_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_TERMS_MAX: Final = 128
"""How many terms of a sentence are searched for, from the first: as many as a query may have."""


_PATTERNS_KEPT: Final = 256
_CLAUSE: Final = re.compile(r"[，,；;]")
_LEAST_CLAUSE: Final = 4
"""A shorter clause (“对了，”) names nothing."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """One sentence that asks: the text to embed, the terms to search for, and the terms of its topic."""

    meaning: str
    terms: tuple[str, ...]
    topic: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, parsed for a log with certain speakers.

    Attributes:
        reading: the reading of its text alone.
        sentences: the sentences that ask, one to four.
        persons: the speakers that it names.
    """

    reading: QuestionReading
    sentences: tuple[ParsedSentence, ...]
    persons: frozenset[str]

    @property
    def of_assistant(self) -> bool:
        """Whether the assistant's words would decide it."""
        return self.reading.asks_of_assistant

    @property
    def of_user(self) -> bool:
        """Whether the user's own words would decide it, where it names nobody."""
        return not self.of_assistant

    @property
    def dates(self) -> TimeRange | None:
        """The exact time that it names; None if it names none."""
        signal = self.reading.time_signal
        return signal.window if signal and signal.precision is Precision.EXACT else None


def parsed(reading: QuestionReading, speakers: Sequence[str]) -> ParsedQuestion:
    """Parse a question for a log in which these people speak."""
    return ParsedQuestion(
        reading=reading,
        sentences=tuple(_sentence(sentence, speakers) for sentence in reading.sentences),
        persons=frozenset(_named(reading.text, speakers)),
    )


def _sentence(sentence: str, speakers: Sequence[str]) -> ParsedSentence:
    found = _terms(sentence)[:_TERMS_MAX]
    topic = frozenset(_terms(_first_clause(sentence)))
    return ParsedSentence(without_speakers(sentence, speakers) or sentence, found, topic)


def _terms(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(streams(without_asking_words(text)).terms))


def _first_clause(sentence: str) -> str:
    """Return the first of several clauses of a Chinese sentence, which names the topic of the rest; else nothing."""
    if language_of(sentence) is not Language.CHINESE:
        return ""
    clauses = [clause for part in _CLAUSE.split(sentence) if len(clause := part.strip(" ？?。")) >= _LEAST_CLAUSE]
    return clauses[0] if len(clauses) > 1 else ""


def _named(text: str, speakers: Sequence[str]) -> Iterable[str]:
    begun = beginnings(_WORD.findall(text.lower()))
    return (name for name in speakers if beginning(name) in begun or _mentioned(name).search(text))


@lru_cache(_PATTERNS_KEPT)
def _mentioned(name: str) -> re.Pattern[str]:
    """Return the pattern of a name as a word of its own, or within a script without spaces."""
    return re.compile(rf"(?<![a-z0-9]){re.escape(name.strip() or name)}(?![a-z0-9])", re.IGNORECASE)


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


def meaning_of(timeline: Timeline, hits: Sequence[VectorHit], *, complete: bool, total: int) -> Meaning | None:
    """Read a list of the nearest messages, best first.

    Min-max over all messages of a user tells near from far best (docs/quality.md); from a list that ends early the far
    end is estimated.

    Args:
        timeline: the messages.
        hits: the list.
        complete: whether it holds all there are.
        total: how many messages the user has.

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
    missing = 0 if complete else max(0, total - len(scores))
    mean, deviation = _spread(scores, unseen, missing)
    return Meaning(nearness, np.where(found > 0, cosines, 0.0), found, mean, deviation, len(scores) + missing)


def _spread(scores: Floats, unseen: float, missing: int) -> tuple[float, float]:
    """Return mean and standard deviation, taking so many missing messages to score `unseen`."""
    count = len(scores) + missing
    mean = (float(scores.sum()) + missing * unseen) / count
    squares = float(((scores - mean) ** 2).sum()) + missing * (unseen - mean) ** 2
    return mean, math.sqrt(squares / count)
