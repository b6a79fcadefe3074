"""Messages and their stored versions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

ID_MAX_CHARS: Final = 128
"""Maximum length of user, message, conversation and request ids, in characters."""


class Role(IntEnum):
    """The author's role in the conversation, numbered like the enum `nomemory.v1.Role`."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3
    TOOL = 4


_NO_METADATA: Final[Mapping[str, str]] = {}


class Message(NamedTuple):
    """A chat message of one user.

    The class is a named tuple for speed, because every write and every index creates one object per message.

    Attributes:
        user_id: the user whose memory contains the message.
        message_id: empty if the message log generates the id.
        ts_us: the timestamp, in microseconds since the Unix epoch.
        metadata: key-value pairs that the caller attached to the message.
        embedding: the vector that the caller sent, as little-endian float32 bytes; None if the caller sent no vector.
        expire_us: the expiry time, in microseconds since the Unix epoch; None means never.
        retracts: the ids of the messages that this message retracts.
        is_undated: whether `ts_us` is the arrival time, because the caller sent no timestamp.
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
    """A stored version of a message.

    Attributes:
        user_id: the user whose memory contains the message.
        ts_us: the timestamp, in microseconds since the Unix epoch.
        sequence: the sequence number of the version in the message log. Replacing a message creates a version with a
            new sequence number.
        wire: the serialized `nomemory.v1.ChatMessage`. The server builds responses from these bytes without parsing
            them.
        retracted_by: the id of the message that retracts this message, also present in `wire`; empty if there is none.
    """

    user_id: str
    message_id: str
    ts_us: int
    sequence: int
    wire: bytes
    retracted_by: str = ""
