"""Parameters for building a context."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nomemory.recall.model.question import Turn


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """Parameters for building a context. The user id is passed separately.

    Attributes:
        turns: the latest turns of the current conversation, oldest first.
        conversation_id: id of the current conversation; empty if the conversation is not stored.
        max_tokens: maximum number of estimated tokens in the prompt text.
        now: the current time, in the time zone for dates in the text. Messages sent at or after `now` are ignored.
        at_least: a write token. The search waits until the indexes contain the write with this token.
        exclude_conversation_ids: conversations to exclude from the search, in addition to the current one.
        max_query_chars: maximum number of characters in the query text of a search.
    """

    turns: tuple[Turn, ...]
    conversation_id: str
    max_tokens: int
    now: datetime
    at_least: str = ""
    exclude_conversation_ids: tuple[str, ...] = ()
    max_query_chars: int = 32_000

    @property
    def all_excluded_conversation_ids(self) -> tuple[str, ...]:
        """The current conversation and `exclude_conversation_ids`: conversations that the search must not read."""
        current = (self.conversation_id,) if self.conversation_id else ()
        return tuple(dict.fromkeys((*current, *self.exclude_conversation_ids)))
