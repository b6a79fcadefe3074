"""A question, read once: which sentences ask, in which words, of what time, of whom, and for what kind of answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from nomemory.text.asking import asking_sentences, asks
from nomemory.text.conversation_turns import is_conversation_turn
from nomemory.text.language import FIRST_PERSON
from nomemory.text.names import people
from nomemory.text.question_words import content_words, exact_phrases
from nomemory.text.sentences import unquoted
from nomemory.text.time_expressions import TimeSignal, find_exact_ranges, time_signal
from nomemory.text.time_range import TimeRange

_ASKS_WHEN: Final = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:date|day|time|week|month|year)\b|\bhow long\b"
    r"|什么时候|何时|哪[天月年]|几[号月点]|多久",
    re.IGNORECASE,
)
_ASKS_FOR_LATEST: Final = re.compile(
    r"最近|最新|上次|上回|现在|目前|进展|进度|\b(?:latest|last time|currently|now|still)\b", re.IGNORECASE
)
_ASKS_OF_ASSISTANT: Final = re.compile(
    r"\b(?:did|have|had) you (?:ever |already |just )?"
    r"(?:sa(?:y|id)|t[eo]ll?d?|recommend|suggest|promise|advise|propose|mention|offer|agree|explain|answer)"
    r"|\byou(?: have| had|['’]ve|['’]d)? (?:ever |already |just )?"
    r"(?:said|told|recommended|suggested|promised|advised|proposed|mentioned|offered|agreed|explained|answered)\b"
    r"|\byour (?:recommendation|suggestion|advice|promise|answer|explanation)"
    r"|(?<![跟给对向和同诉])[你您](?:们|之前|以前|上次|上回|曾经|曾|当时|那天|昨天|最近|都|还|也|有没有|是不是|[给跟帮向对和]我)*"
    r"(?:答应|承诺|保证|推荐|建议|介绍|解释|回答|告诉|提醒|说|讲|提)(?:[给过]?我)?(?:[过了的]|什么|哪)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class QuestionReading:
    """What a question says by itself, whatever messages it is asked about.

    Each part is read when it is first needed, and then kept. So one reading serves all steps of an answer, and a step
    that needs little of it costs little.

    Attributes:
        text: the question.
        now: when it is asked: an aware time in the asker's zone; None where that is not known.
    """

    text: str
    now: datetime | None = None

    @cached_property
    def asks(self) -> bool:
        """Whether it holds a question."""
        return asks(self.text)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The sentences that ask, one to four; the whole text where none does."""
        return tuple(asking_sentences(self.text))

    @cached_property
    def asked(self) -> str:
        """The sentences that ask, as one text."""
        return " ".join(self.sentences)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """What it asks about: words that can stand in an answer."""
        return tuple(content_words(self.asked))

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """Phrases that an answer must hold exactly."""
        return tuple(exact_phrases(self.text))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The people whom it names, as far as its grammar tells."""
        return tuple(people(self.text))

    @cached_property
    def time_signal(self) -> TimeSignal | None:
        """The time that it names; None if it names none, or `now` is not known."""
        return None if self.now is None else time_signal(unquoted(self.asked), self.now)

    @cached_property
    def is_turn(self) -> bool:
        """Whether it reads like a turn of a conversation rather than a question to a memory."""
        return is_conversation_turn(self.text)

    @cached_property
    def exact_ranges(self) -> tuple[TimeRange, ...]:
        """The days and periods that it names; none if `now` is not known, or in a turn, which speaks of the present."""
        if self.now is None or self.is_turn:
            return ()
        return find_exact_ranges(unquoted(self.asked), self.now)

    @cached_property
    def asks_when(self) -> bool:
        """Whether it asks when something was, or how long it took: a message that says “yesterday” may answer."""
        return bool(_ASKS_WHEN.search(self.text))

    @cached_property
    def asks_for_latest(self) -> bool:
        """Whether it asks how things stand now."""
        return bool(_ASKS_FOR_LATEST.search(self.asked))

    @cached_property
    def asks_of_assistant(self) -> bool:
        """Whether it asks what the assistant has said."""
        return bool(_ASKS_OF_ASSISTANT.search(self.text))

    @cached_property
    def asks_of_self(self) -> bool:
        """Whether the asker speaks of themselves in the sentences that ask."""
        return any(map(FIRST_PERSON.search, self.sentences))

    @cached_property
    def first_person(self) -> bool:
        """Whether the asker speaks of themselves anywhere."""
        return bool(FIRST_PERSON.search(self.text))
