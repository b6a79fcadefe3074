"""Message filters."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.message import Message, Role
from nomemory.server.metadata_hashes import Entry


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that a message must meet. None, "" and () mean any.

    Attributes:
        since_us: the minimum timestamp, inclusive.
        until_us: the maximum timestamp, exclusive.
        role: the role of the author.
        conversation_id: the conversation.
        metadata: the required metadata entries, sorted by key, with unique keys.
    """

    since_us: int | None = None
    until_us: int | None = None
    role: Role | None = None
    conversation_id: str = ""
    metadata: tuple[Entry, ...] = ()

    def admits(self, message: Message) -> bool:
        """Return whether a message passes the filter."""
        since, until = self.since_us, self.until_us
        return (
            (since is None or message.ts_us >= since)
            and (until is None or message.ts_us < until)
            and (self.role is None or message.role is self.role)
            and self.conversation_id in {"", message.conversation_id}
            and all(message.metadata.get(key) == value for key, value in self.metadata)
        )


EVERYTHING = Filter()
