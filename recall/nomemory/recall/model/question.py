"""What is asked, and where the search for it starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property

from nomemory.text.question_reading import QuestionReading
from nomemory.text.time_range import TimeRange


class Role(Enum):
    """Whose messages are looked at, as the tools spell it."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"
    ANY = "any"


@dataclass(frozen=True)
class Question:
    """A question about the bound user.

    `now` is an aware time in the asker's own zone: "yesterday" is counted from it, and nothing said at or after it is
    looked at. `time_range` and `role` are where the caller wants the search to start, None if they do not care.
    `embedding` is the caller's own vector of the text; empty: there is none.
    """

    text: str
    now: datetime
    time_range: TimeRange | None = None
    role: Role | None = None
    embedding: tuple[float, ...] = ()

    @cached_property
    def reading(self) -> QuestionReading:
        """The reading of the text, made once for all steps of the recall."""
        return QuestionReading(self.text, self.now)
