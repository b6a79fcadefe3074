"""A question as the ranking reads it: the sentences that ask, what each is searched by, and when it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from nomemory.recall.intent.intent import read_intent
from nomemory.recall.model.question import Role
from nomemory.text.analysis import terms, tokenise
from nomemory.text.question_words import ASKING_CHINESE
from nomemory.text.temporal_cues import asks_when
from nomemory.text.time_expressions import Precision
from nomemory.text.time_range import TimeRange

_FIRST_LETTERS: Final = 3
"""How much of a name is enough: people shorten names at their ends."""
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_CAPITALISED: Final = re.compile(r"\b[A-Z][a-z]+\b(?:['’]s)?")
_TERMS_MAX: Final = 128
"""Of a sentence's terms, the first are looked for, as many as a query may have."""
_PATTERNS_KEPT: Final = 256
_CHINESE: Final = re.compile(r"[\u4e00-\u9fff]")
_CLAUSE: Final = re.compile(r"[，,；;]")
_LEAST_CLAUSE: Final = 4
"""A shorter clause (“对了，”) names nothing."""
_FIRST_PERSON: Final = re.compile(r"\b(?:I|me|my|mine|we|us|our)\b|我|咱|俺")

_OF_ASSISTANT: Final = re.compile(
    r"\b(?:did|have|had) you (?:ever |already |just )?"
    r"(?:sa(?:y|id)|t[eo]ll?d?|recommend|suggest|promise|advise|propose|mention|offer|agree|explain|answer)"
    r"|\byou(?: have| had|['’]ve|['’]d)? (?:ever |already |just )?"
    r"(?:said|told|recommended|suggested|promised|advised|proposed|mentioned|offered|agreed|explained|answered)\b"
    r"|\byour (?:recommendation|suggestion|advice|promise|answer|explanation)"
    r"|(?<![跟给对向和同诉])[你您](?:们|之前|以前|上次|上回|曾经|曾|当时|那天|昨天|最近|都|还|也|有没有|是不是|[给跟帮向对和]我)*"
    r"(?:答应|承诺|保证|推荐|建议|介绍|解释|回答|告诉|提醒|说|讲|提)(?:[给过]?我)?(?:[过了的]|什么|哪)",
    re.IGNORECASE,
)
"""It is about what the one who is asked has said."""


@dataclass(frozen=True, slots=True)
class AskedSentence:
    """One sentence that asks: the text whose meaning is looked for, the terms that are, and those of its topic."""

    meaning: str
    terms: tuple[str, ...]
    topic: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, read.

    Attributes:
        sentences: one to four.
        persons: speakers whom it names.
        of_user: whether the user's own words would decide it, where it names nobody.
        of_assistant: whether the assistant's would: it asks what that has said.
        first_person: whether the asker asks about themselves.
        dates: the time that it names outright, if it does.
        asks_when: whether it asks when something was.
    """

    sentences: tuple[AskedSentence, ...]
    persons: frozenset[str]
    of_user: bool
    of_assistant: bool
    first_person: bool
    dates: TimeRange | None
    asks_when: bool


def read(text: str, speakers: Sequence[str], now: datetime) -> Asked:
    """Read a question that is asked at an aware time, in a log where these people speak."""
    intent = read_intent(text, now)
    signal, of_assistant = intent.signal, bool(_OF_ASSISTANT.search(text))
    return Asked(
        sentences=tuple(_sentence(sentence, speakers) for sentence in intent.sentences),
        persons=frozenset(_named(text, speakers)),
        of_user=intent.role is Role.USER and not of_assistant,
        of_assistant=of_assistant,
        first_person=bool(_FIRST_PERSON.search(text)),
        dates=signal.window if signal and signal.precision is Precision.EXACT else None,
        asks_when=asks_when(text),
    )


def name_terms(name: str) -> set[str]:
    """Return the terms of a speaker's name."""
    return {term.text for term in terms(tokenise(name))}


def _sentence(sentence: str, speakers: Sequence[str]) -> AskedSentence:
    found = _terms(sentence)[:_TERMS_MAX]
    topic = frozenset(_terms(_first_clause(sentence)))
    return AskedSentence(_without_speakers(sentence, speakers) or sentence, found, topic)


def _terms(text: str) -> tuple[str, ...]:
    bare = ASKING_CHINESE.sub(" ", text)
    return tuple(dict.fromkeys(term.text for term in terms(tokenise(bare))))


def _first_clause(sentence: str) -> str:
    """Return the first clause of a Chinese sentence of several, which names what the rest asks about; else nothing."""
    if not _CHINESE.search(sentence):
        return ""
    clauses = [clause for part in _CLAUSE.split(sentence) if len(clause := part.strip(" ？?。")) >= _LEAST_CLAUSE]
    return clauses[0] if len(clauses) > 1 else ""


def _without_speakers(sentence: str, speakers: Sequence[str]) -> str:
    """Strip the names of speakers: what they say holds them rarely, greetings do."""
    for name in speakers:
        sentence = _standing(name).sub(" ", sentence)
    beginnings = set(_beginnings(speakers))
    sentence = _CAPITALISED.sub(lambda word: " " if _beginning(word[0]) in beginnings else word[0], sentence)
    return " ".join(sentence.split())


def _named(text: str, speakers: Sequence[str]) -> Iterable[str]:
    begun = set(_beginnings(_WORD.findall(text.lower())))
    return (name for name in speakers if _beginning(name) in begun or _mentioned(name).search(text))


@lru_cache(_PATTERNS_KEPT)
def _standing(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}\b(?:['’]s)?", re.IGNORECASE)


@lru_cache(_PATTERNS_KEPT)
def _mentioned(name: str) -> re.Pattern[str]:
    """Return what finds a name that stands for itself, or amid a script without spaces."""
    return re.compile(rf"(?<![a-z0-9]){re.escape(name.strip() or name)}(?![a-z0-9])", re.IGNORECASE)


def _beginnings(words: Iterable[str]) -> Iterable[str]:
    return (_beginning(word) for word in words if len(word) >= _FIRST_LETTERS)


def _beginning(word: str) -> str:
    return word[:_FIRST_LETTERS].lower()
