"""Analyse a question for one user's log: the terms of each sentence that asks, and the speakers that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nomemory.text.analysis import streams
from nomemory.text.language import Language, language_of
from nomemory.text.names import beginning, beginnings, without_speakers
from nomemory.text.query_parts import select_parts
from nomemory.text.question_reading import QuestionReading
from nomemory.text.question_words import without_asking_words
from nomemory.text.time_range import TimeRange

_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_TERMS_MAX: Final = 128
"""How many terms of a sentence are searched for, from the first: as many as a query may have."""


_MAX_PARTS: Final = 8
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
    def date_ranges(self) -> tuple[TimeRange, ...]:
        """The days and periods that it names."""
        return self.reading.exact_ranges


def parsed(reading: QuestionReading, speakers: Sequence[str]) -> ParsedQuestion:
    """Parse a question for a log in which these people speak."""
    return ParsedQuestion(
        reading=reading,
        sentences=tuple(_sentence(sentence, speakers) for sentence in _searched_texts(reading)),
        persons=frozenset(_named(reading.text, speakers)),
    )


def _searched_texts(reading: QuestionReading) -> Sequence[str]:
    """Return the texts to search for: the sentences that ask, or the parts of a turn, which counts as a whole."""
    if reading.is_turn:
        return select_parts(reading.text)
    return [part for sentence in reading.sentences for part in select_parts(sentence)][:_MAX_PARTS]


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
