"""What a question is after: hypotheses, whose words would decide them, and which tool to begin with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nomemory.recall.intent.topics import TOPICS, Hypothesis, Topic
from nomemory.recall.model.question import Role
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, SEMANTIC_SEARCH
from nomemory.text.asking import asking_sentences, content_words, exact_phrases, people, unquoted
from nomemory.text.time_expressions import TimeSignal, time_signal

_LATEST: Final = re.compile(
    r"最近|最新|上次|上回|现在|目前|进展|进度|怎样了|怎么样了"
    r"|\b(?:latest|last time|currently|now|still|going|how far|last (?:talked|spoke))\b",
    re.IGNORECASE,
)
_CHINESE: Final = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Intent:
    """What a question is after.

    Attributes:
        hypotheses: up to three, the strongest first; none: anything.
        role: whose words would decide it.
        sentences: the sentences that ask.
        words: what it asks about.
        phrases: what has to stand in so many words.
        names: people whom it names.
        expansion: words in which its topics come up in a conversation.
        told: what answers might sound like, in the language of the question first.
        signal: when it says that something was.
        latest: it asks how things stand now.
        first_tool: what suits it best.
    """

    hypotheses: tuple[Hypothesis, ...]
    role: Role
    sentences: tuple[str, ...]
    words: tuple[str, ...]
    phrases: tuple[str, ...]
    names: tuple[str, ...]
    expansion: tuple[str, ...]
    told: tuple[str, ...]
    signal: TimeSignal | None
    latest: bool
    first_tool: str


_MAX_HYPOTHESES: Final = 3


def read_intent(text: str, now: datetime) -> Intent:
    """Read a question that is asked at an aware time."""
    phrases = tuple(exact_phrases(text))
    sentences = tuple(asking_sentences(text))
    asked = " ".join(sentences)
    topics = [topic for topic in TOPICS if topic.asked.search(asked)]
    hypotheses = tuple(dict.fromkeys(topic.hypothesis for topic in topics))[:_MAX_HYPOTHESES]
    return Intent(
        hypotheses=hypotheses,
        role=_role(hypotheses),
        sentences=sentences,
        words=tuple(content_words(asked)),
        phrases=phrases,
        names=tuple(people(text)),
        expansion=tuple(dict.fromkeys(word for topic in topics for word in topic.said)),
        told=_told(topics, chinese=bool(_CHINESE.search(text))),
        signal=time_signal(unquoted(asked), now),
        latest=bool(_LATEST.search(asked)),
        first_tool=_first_tool(hypotheses, phrases),
    )


def _told(topics: Sequence[Topic], *, chinese: bool) -> tuple[str, ...]:
    """Return what answers to the first topic might sound like, in both languages."""
    pair = topics[0].told if topics else ()
    return pair if chinese else pair[::-1]


def _role(hypotheses: tuple[Hypothesis, ...]) -> Role:
    return Role.ANY if Hypothesis.PROMISE in hypotheses else Role.USER


def _first_tool(hypotheses: tuple[Hypothesis, ...], phrases: tuple[str, ...]) -> str:
    if phrases:
        return LEXICAL_SEARCH
    return MESSAGES_LIST if hypotheses[:1] == (Hypothesis.SCHEDULE,) else SEMANTIC_SEARCH
