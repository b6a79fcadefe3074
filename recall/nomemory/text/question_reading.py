"""A question, read once: which sentences ask, in which words, of what time, of whom, and for what kind of answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from nomemory.text import question_cues as cues
from nomemory.text.asking import asking_sentences, content_words, exact_phrases, unquoted
from nomemory.text.names import people
from nomemory.text.question_words import ASKS
from nomemory.text.time_expressions import TimeSignal, time_signal


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
        return bool(ASKS.search(self.text))

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
    def asks_when(self) -> bool:
        """Whether it asks when something was, or how long it took."""
        return bool(cues.ASKS_WHEN.search(self.text))

    @cached_property
    def asks_for_latest(self) -> bool:
        """Whether it asks how things stand now."""
        return bool(cues.ASKS_FOR_LATEST.search(self.asked))

    @cached_property
    def asks_of_assistant(self) -> bool:
        """Whether it asks what the assistant has said."""
        return bool(cues.ASKS_OF_ASSISTANT.search(self.text))

    @cached_property
    def asks_of_self(self) -> bool:
        """Whether the asker speaks of themselves in the sentences that ask."""
        return any(map(cues.FIRST_PERSON.search, self.sentences))

    @cached_property
    def first_person(self) -> bool:
        """Whether the asker speaks of themselves anywhere."""
        return bool(cues.FIRST_PERSON.search(self.text))
