"""A message, and the version of it that the log holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from nomemory.server.metadata_mark import Entry


class Role(IntEnum):
    """On whose side of the conversation a message stands; the numbers are those of the contract."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3
    TOOL = 4


_NO_METADATA: Final[Mapping[str, str]] = {}


class Message(NamedTuple):
    """One thing that was said; a tuple, because every write and every index makes one of each message.

    `message_id` is empty where the log is to make one. `ts_us` is microseconds since the Unix epoch, as is `expire_us`,
    the moment from which the message is gone; None: it stays. `embedding` is the caller's own vector as little-endian
    float32 bytes, or None.
    """

    user_id: str
    message_id: str
    ts_us: int
    role: Role
    content: str
    name: str = ""
    conversation_id: str = ""
    metadata: Mapping[str, str] = _NO_METADATA
    embedding: bytes | None = None
    expire_us: int | None = None


class LoggedMessage(NamedTuple):
    """One version of a message as the log holds it; a tuple, because a page is made of many.

    `sequence` identifies the version: a replaced message has a new one. `wire` is the message as the bytes of a
    `nomemory.v1.ChatMessage`, so that a reply can be spliced together without building messages anew; see
    `nomemory.server.wire` to read it.
    """

    user_id: str
    message_id: str
    ts_us: int
    sequence: int
    wire: bytes


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
