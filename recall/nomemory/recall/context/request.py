"""The request for a context."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nomemory.recall.model.question import Turn


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """The messages that an assistant wants for its prompt. The bound user is not part of it.

    Attributes:
        turns: the latest turns of the running conversation, oldest first.
        conversation_id: the running conversation; empty: it is not stored.
        max_tokens: limit of the text.
        now: an aware time, in the zone of the dates in the text; messages at or after it are not read.
        at_least: a write token that the indexes have to reach first.
        exclude_conversation_ids: further conversations without related messages.
    """

    turns: tuple[Turn, ...]
    conversation_id: str
    max_tokens: int
    now: datetime
    at_least: str = ""
    exclude_conversation_ids: tuple[str, ...] = ()

    @property
    def excluded(self) -> tuple[str, ...]:
        """Every conversation without related messages."""
        running = (self.conversation_id,) if self.conversation_id else ()
        return tuple(dict.fromkeys((*running, *self.exclude_conversation_ids)))
