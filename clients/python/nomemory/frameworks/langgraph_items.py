"""Convert between messages and LangGraph store items."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from nomemory.client import chat_message, tool_results
from nomemory.client.messages import FilterOptions
from nomemory.v1 import message_pb2

FIELDS: Final = frozenset({"content", "role", "name", "said_at"})


class NotAMessageError(ValueError):
    """An operation or value that a message store does not support."""


def value_of(message: message_pb2.ChatMessage) -> dict[str, Any]:
    """Return the item value of a message: `content`, `role`, `said_at`, and `name` if set."""
    shown = tool_results.message(message)
    return {name: item for name, item in shown.items() if name in FIELDS} | {"content": message.content}


def new_message(value: Mapping[str, Any], stored: message_pb2.ChatMessage | None) -> message_pb2.ChatMessage:
    """Return a message without ids for an item value. The default role is `user`.

    The metadata and expiry of `stored`, the message to replace, are kept.

    Raises:
        NotAMessageError: `content` is not a string, or a field is unknown.
        ValueError: a value is invalid; see `chat_message`.
    """
    strange = value.keys() - FIELDS
    if strange or not isinstance(value.get("content"), str):
        raise NotAMessageError(
            f"unsupported value: `content` must be a string; optional fields are {sorted(FIELDS - {'content'})}"
        )
    before = stored or message_pb2.ChatMessage()
    return chat_message(
        user_id="",
        content=value["content"],
        role=value.get("role", "user"),
        name=value.get("name", ""),
        ts=value.get("said_at"),
        metadata=before.metadata,
        expire_ts=before.expire_ts.ToDatetime(tzinfo=UTC) if before.HasField("expire_ts") else None,
    )


def narrowing(conditions: Mapping[str, Any]) -> FilterOptions:
    """Convert LangGraph filter conditions: `role`, and `said_at` with `$gte` or `$lt`.

    Raises:
        NotAMessageError: a condition is not supported.
    """
    found: FilterOptions = {}
    for field, wanted in conditions.items():
        for operator, value in (wanted if isinstance(wanted, Mapping) else {"$eq": wanted}).items():
            found |= _narrowed(field, operator, value)
    return found


def _narrowed(field: str, operator: str, value: Any) -> FilterOptions:  # noqa: ANN401 - what a caller compares with
    match field, operator:
        case "role", "$eq":
            return {"role": value}
        case "said_at", "$gte":
            return {"since": value}
        case "said_at", "$lt":
            return {"until": value}
    raise NotAMessageError(f"unsupported filter {field} {operator}; supported: role, and said_at with $gte and $lt")
