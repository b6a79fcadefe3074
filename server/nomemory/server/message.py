"""Messages and their stored versions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

ID_MAX_CHARS: Final = 128
"""Maximum length of user, message, conversation and request ids, in characters."""


class Role(IntEnum):
    """The role of a message's author, with the values of the API enum."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3
    TOOL = 4


_NO_METADATA: Final[Mapping[str, str]] = {}


class Message(NamedTuple):
    """A message. It is a named tuple for speed, because every write and every index creates one per message.

    Attributes:
        user_id: the user whose memory contains the message.
        message_id: the id; empty if the log generates one.
        ts_us: the timestamp, in microseconds since the Unix epoch.
        role: the role of the author.
        content: the text.
        name: the name of the author.
        conversation_id: the conversation.
        metadata: key-value pairs of the caller.
        embedding: the caller's vector, as little-endian float32 bytes; None if the caller sent none.
        expire_us: the expiry time, in microseconds since the Unix epoch; None means never.
        retracts: ids of the messages that this one retracts.
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
        message_id: the id of the message.
        ts_us: the timestamp, in microseconds since the Unix epoch.
        sequence: the id of the version. Replacing a message creates a version with a new sequence.
        wire: the serialized `nomemory.v1.ChatMessage`. Responses are built from these bytes without parsing them.
        retracted_by: the id of the message that retracted this one, also present in `wire`; empty if none.
    """

    user_id: str
    message_id: str
    ts_us: int
    sequence: int
    wire: bytes
    retracted_by: str = ""
