"""A message, and the version of it that the log holds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

ID_MAX_CHARS: Final = 128
"""Longest user, message, conversation and request id, in characters."""


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
    float32 bytes, or None. `retracts` has the ids of what it takes back. `is_undated`: `ts_us` is when it
    arrived, for want of a time of its own.
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
    retracts: tuple[str, ...] = ()
    is_undated: bool = False


class LoggedMessage(NamedTuple):
    """One version of a message as the log holds it; a tuple, because a page is made of many.

    `sequence` identifies the version: a replaced message has a new one. `wire` is the message as the bytes of a
    `nomemory.v1.ChatMessage`, so that a reply can be spliced together without building messages anew; see
    `nomemory.server.wire` to read it. `retracted_by` is the id of what took it back; it is among the bytes, too.
    """

    user_id: str
    message_id: str
    ts_us: int
    sequence: int
    wire: bytes
    retracted_by: str = ""
