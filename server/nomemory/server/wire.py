"""Conversion between `Message` and serialized `nomemory.v1.ChatMessage`."""

from __future__ import annotations

from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.message import Message, Role
from nomemory.v1 import message_pb2

MICROS = 1_000_000
ROLES: Final = {role.value: role for role in Role}


def encode(message: Message) -> bytes:
    """Serialize a message deterministically, without its embedding."""
    chat = message_pb2.ChatMessage(
        message_id=message.message_id,
        user_id=message.user_id,
        role=message_pb2.Role.ValueType(message.role),
        content=message.content,
        name=message.name,
        conversation_id=message.conversation_id,
        retracts=message.retracts,
    )
    if message.metadata:
        chat.metadata.update(message.metadata)
    _set_timestamp(chat.ts, message.ts_us)
    if message.expire_us is not None:
        _set_timestamp(chat.expire_ts, message.expire_us)
    return chat.SerializeToString(deterministic=True)


def build_sort_key(wire: bytes) -> tuple[int, str]:
    """Return the timestamp and id of a serialized message, which define the order of a user's messages."""
    chat = message_pb2.ChatMessage.FromString(wire)
    return _to_micros(chat.ts), chat.message_id


def decode(wire: bytes) -> Message:
    """Deserialize a message."""
    chat = message_pb2.ChatMessage.FromString(wire)
    return Message(
        user_id=chat.user_id,
        message_id=chat.message_id,
        ts_us=_to_micros(chat.ts),
        role=ROLES[chat.role],
        content=chat.content,
        name=chat.name,
        conversation_id=chat.conversation_id,
        metadata=dict(chat.metadata),
        expire_us=_to_micros(chat.expire_ts) if chat.HasField("expire_ts") else None,
        retracts=tuple(chat.retracts),
    )


def append_retracted_by(wire: bytes, retracted_by: str | None) -> bytes:
    """Return a serialized message with `retracted_by` appended unless it is None or empty."""
    return wire + message_pb2.ChatMessage(retracted_by=retracted_by).SerializeToString() if retracted_by else wire


def _set_timestamp(timestamp: Timestamp, micros: int) -> None:
    timestamp.seconds, remainder = divmod(micros, MICROS)
    timestamp.nanos = remainder * 1000


def _to_micros(timestamp: Timestamp) -> int:
    return timestamp.seconds * MICROS + timestamp.nanos // 1000
