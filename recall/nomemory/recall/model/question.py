"""The question, the current conversation, and the initial search scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property
from itertools import dropwhile, takewhile
from typing import Final

from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.question_detection import has_back_reference, is_statement
from nomemory.text.time_range import TimeRange

_MAX_QUERY_CHARS: Final = 500
"""Maximum number of characters of turns in a query. Longer texts have several topics and are slow to embed."""


class Role(Enum):
    """Sender roles, spelled as in tool arguments."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the current conversation. The repr omits the text, so that logs do not contain it."""

    role: Role
    text: str

    def __repr__(self) -> str:
        return f"Turn({self.role.value}, {len(self.text)} characters)"


@dataclass(frozen=True)
class Question:
    """A question about a user, with the conversation and the search scope.

    `now` is the current time in the user's time zone. Relative dates refer to `now`, and messages sent at or after
    `now` are ignored. `time_range` and `role` are the initial search scope; None means no preference. `embedding` is
    the caller's vector of the text, or empty. `conversation_id` restricts the recall to one conversation; an empty id
    means all conversations. Conversations in `exclude_conversation_ids` are never read.

    `turns` are the latest turns of the current conversation, oldest first. If there are turns, `text` may be empty; the
    recall then returns memories that are relevant to the conversation. Turns are never stored or logged.
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
    def query_text(self) -> str:
        """The search query: the text of the question, or the user's last turns if the text is empty."""
        return self.text if self.text.strip() else _find_last_user_text(self.turns)

    @cached_property
    def is_conversation(self) -> bool:
        """Whether the text is empty or asks nothing, so that the input is a conversation rather than a question."""
        return not self.text.strip() or is_statement(self.text)

    @cached_property
    def referenced_turn(self) -> str:
        """The user's last turns if the question has a pronoun for them or no content words, otherwise empty."""
        if not self.text.strip() or not (has_back_reference(self.text) or not self.analysis.content_words):
            return ""
        return _find_last_user_text(self.turns)

    @cached_property
    def analysis(self) -> QuestionAnalysis:
        """The cached analysis of the query text."""
        return QuestionAnalysis(self.query_text, self.now)


def _find_last_user_text(turns: Sequence[Turn]) -> str:
    """Return the user's last turns as one text, or the last turn if no turn is from the user.

    Only the end of a long text is kept, because people usually state their point last.
    """
    latest = _find_last_user_turns(turns) or turns[-1:]
    return "\n".join(turn.text.strip() for turn in latest)[-_MAX_QUERY_CHARS:].strip()


def _find_last_user_turns(turns: Iterable[Turn]) -> list[Turn]:
    reversed_turns = dropwhile(lambda turn: turn.role is not Role.USER, reversed(list(turns)))
    return list(takewhile(lambda turn: turn.role is Role.USER, reversed_turns))[::-1]
