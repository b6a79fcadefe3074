"""The filter of a read."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.message import Message, Role
from nomemory.server.metadata_hashes import Entry


@dataclass(frozen=True, slots=True)
class Filter:
    """What a read is narrowed to. `since_us` is inclusive, `until_us` exclusive; None, "" and () mean any.

    `metadata` has the entries, key and value, that a message must have; sorted by key, each key once.
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
