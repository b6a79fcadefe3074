"""What is asked, in which talk, and where the search for it starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property
from itertools import dropwhile, takewhile
from typing import Final

from nomemory.text.asking import is_statement, refers_back
from nomemory.text.question_reading import QuestionReading
from nomemory.text.time_range import TimeRange

_SOUGHT_CHARS: Final = 500
"""How much of what the user said last is searched for. A longer text means too much at once, and embeds slowly."""


class Role(Enum):
    """Whose messages are looked at, as the tools spell it."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the conversation in progress. It prints without its text, so that no log can show it."""

    role: Role
    text: str

    def __repr__(self) -> str:
        return f"Turn({self.role.value}, {len(self.text)} characters)"


@dataclass(frozen=True)
class Question:
    """A question about the bound user.

    `now` is an aware time in the asker's own zone: "yesterday" is counted from it, and nothing said at or after it is
    looked at. `time_range` and `role` are where the caller wants the search to start, None if they do not care.
    `embedding` is the caller's own vector of the text; empty: there is none. `conversation_id` confines the recall to
    one conversation; empty: all of them. `exclude_conversation_ids` are conversations of which nothing is read.

    `turns` are the last turns of the conversation in progress, oldest first. With them `text` may be empty: then it is
    asked what an assistant should think of before it answers. They are never stored and never logged.
    """

    text: str
    now: datetime
    time_range: TimeRange | None = None
    role: Role | None = None
    embedding: tuple[float, ...] = ()
    conversation_id: str = ""
    turns: tuple[Turn, ...] = ()
    exclude_conversation_ids: tuple[str, ...] = ()

    @cached_property
    def sought(self) -> str:
        """What is searched for: the text, or, where it is empty, what the user said last."""
        return self.text if self.text.strip() else _last_said(self.turns)

    @cached_property
    def is_talk(self) -> bool:
        """Whether this is talk that memories may bear on, not a question: no text, or a text in which nothing asks."""
        return not self.text.strip() or is_statement(self.text)

    @cached_property
    def background(self) -> str:
        """What may tell what the text means: what the user said last, if the text needs it. Empty: nothing."""
        if not self.text.strip() or not (refers_back(self.text) or not self.reading.words):
            return ""
        return _last_said(self.turns)

    @cached_property
    def reading(self) -> QuestionReading:
        """What the text says, or what stands for it, read once for all steps of the recall."""
        return QuestionReading(self.sought, self.now)


def _last_said(turns: Sequence[Turn]) -> str:
    """Return the user's last turn, or several in a row; without a turn of the user's, the last turn.

    Of a long text the end is returned: people come to the point last.
    """
    said = _last_of_user(turns) or turns[-1:]
    return "\n".join(turn.text.strip() for turn in said)[-_SOUGHT_CHARS:].strip()


def _last_of_user(turns: Iterable[Turn]) -> list[Turn]:
    backwards = dropwhile(lambda turn: turn.role is not Role.USER, reversed(list(turns)))
    return list(takewhile(lambda turn: turn.role is Role.USER, backwards))[::-1]
