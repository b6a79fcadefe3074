"""Create chat messages and read their ids."""

from __future__ import annotations

from collections.abc import Iterable

from nomemory.v1 import message_pb2 as m


def new_message(
    user: str, message_id: str, content: str, ts: float = 0, role: m.Role.ValueType = m.ROLE_USER, **fields: object
) -> m.ChatMessage:
    """Return a message; `ts` is in seconds since the epoch."""
    message = m.ChatMessage(user_id=user, message_id=message_id, content=content, role=role, **fields)  # type: ignore[arg-type]
    message.ts.FromMicroseconds(round(ts * 1_000_000))
    return message


def ids(messages: Iterable[m.ChatMessage]) -> list[str]:
    """Return the ids of messages."""
    return [message.message_id for message in messages]
