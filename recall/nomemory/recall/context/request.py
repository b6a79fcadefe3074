"""The request for a context."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nomemory.recall.model.question import Turn


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """The parameters of a context. The user id is passed separately.

    Attributes:
        turns: the latest turns of the current conversation, oldest first.
        conversation_id: the current conversation; empty if it is not stored.
        max_tokens: token limit of the text.
        now: timezone-aware time, in the zone for dates in the text; messages at or after `now` are ignored.
        at_least: a write token that the indexes must reach first.
        exclude_conversation_ids: more conversations to exclude from related messages.
    """

    turns: tuple[Turn, ...]
    conversation_id: str
    max_tokens: int
    now: datetime
    at_least: str = ""
    exclude_conversation_ids: tuple[str, ...] = ()

    @property
    def all_excluded_conversation_ids(self) -> tuple[str, ...]:
        """All conversations that are excluded from related messages."""
        current = (self.conversation_id,) if self.conversation_id else ()
        return tuple(dict.fromkeys((*current, *self.exclude_conversation_ids)))
