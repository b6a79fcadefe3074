"""Cached analysis of a question: sentences, terms, time range, names and type of answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from nomemory.text.conversation_turns import is_conversation_turn
from nomemory.text.language import FIRST_PERSON
from nomemory.text.names import find_named_people
from nomemory.text.question_detection import contains_question, find_question_sentences
from nomemory.text.question_words import extract_content_words, extract_exact_phrases
from nomemory.text.sentences import remove_quotations
from nomemory.text.time_expressions import TimeSignal, find_exact_time_ranges, find_time_signal
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
class QuestionAnalysis:
    """Analysis of a question, independent of any messages.

    Each property is computed on first use and then cached.

    Attributes:
        now: timezone-aware time of the question, in the user's zone; None if unknown.
    """

    text: str
    now: datetime | None = None

    @cached_property
    def contains_question(self) -> bool:
        """Whether the text contains a question."""
        return contains_question(self.text)

    @cached_property
    def question_sentences(self) -> tuple[str, ...]:
        """The last question sentences, at most four; the whole text if it has no question sentence."""
        return tuple(find_question_sentences(self.text))

    @cached_property
    def question_text(self) -> str:
        """The question sentences, joined into one text."""
        return " ".join(self.question_sentences)

    @cached_property
    def content_words(self) -> tuple[str, ...]:
        """The words of the question that can occur in an answer."""
        return tuple(extract_content_words(self.question_text))

    @cached_property
    def exact_phrases(self) -> tuple[str, ...]:
        """The exact phrases that an answer must contain."""
        return tuple(extract_exact_phrases(self.text))

    @cached_property
    def named_people(self) -> tuple[str, ...]:
        """The people named in the question, as detected from English grammar."""
        return tuple(find_named_people(self.text))

    @cached_property
    def time_signal(self) -> TimeSignal | None:
        """The time expression of the question; None if the question has no time expression or `now` is unknown."""
        return None if self.now is None else find_time_signal(remove_quotations(self.question_text), self.now)

    @cached_property
    def is_conversation_turn(self) -> bool:
        """Whether the text reads like a conversation turn rather than a memory query."""
        return is_conversation_turn(self.text)

    @cached_property
    def exact_time_ranges(self) -> tuple[TimeRange, ...]:
        """The exact days and periods in the question; empty if `now` is unknown or the text is a conversation turn."""
        if self.now is None or self.is_conversation_turn:
            return ()
        return find_exact_time_ranges(remove_quotations(self.question_text), self.now)

    @cached_property
    def asks_for_time(self) -> bool:
        """Whether the question asks for a date or duration.

        A message with "yesterday" may answer a question about a date.
        """
        return bool(_ASKS_WHEN.search(self.text))

    @cached_property
    def asks_for_latest(self) -> bool:
        """Whether the question asks for the current state."""
        return bool(_ASKS_FOR_LATEST.search(self.question_text))

    @cached_property
    def asks_about_assistant(self) -> bool:
        """Whether the question asks about the assistant's messages."""
        return bool(_ASKS_OF_ASSISTANT.search(self.text))

    @cached_property
    def asks_in_first_person(self) -> bool:
        """Whether the question sentences contain a first-person pronoun."""
        return any(map(FIRST_PERSON.search, self.question_sentences))

    @cached_property
    def has_first_person(self) -> bool:
        """Whether the text contains a first-person pronoun."""
        return bool(FIRST_PERSON.search(self.text))
