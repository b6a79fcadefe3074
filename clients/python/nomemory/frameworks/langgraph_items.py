"""Convert between messages and LangGraph store items."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from nomemory.client import chat_message, tool_results
from nomemory.client.messages import FilterOptions
from nomemory.v1 import message_pb2

FIELDS: Final = frozenset({"content", "role", "name", "said_at"})


class UnsupportedOperationError(ValueError):
    """An operation or a value of a LangGraph store is not supported."""


def to_item_value(message: message_pb2.ChatMessage) -> dict[str, Any]:
    """Convert a message to the value of an item: `content`, `role`, `said_at`, and `name` if the message has one."""
    fields = tool_results.message_to_json(message)
    return {name: item for name, item in fields.items() if name in FIELDS} | {"content": message.content}


def to_message(value: Mapping[str, Any], stored: message_pb2.ChatMessage | None) -> message_pb2.ChatMessage:
    """Convert the value of an item to a message without ids. The default role is `user`.

    If the item replaces the message `stored`, the metadata and the expiry time of that message are kept.

    Raises:
        UnsupportedOperationError: `content` is not a string, or a field is unknown.
        ValueError: a value is invalid; see `chat_message`.
    """
    unknown = value.keys() - FIELDS
    if unknown or not isinstance(value.get("content"), str):
        raise UnsupportedOperationError(
            f"unsupported value: `content` must be a string; optional fields are {sorted(FIELDS - {'content'})}"
        )
    previous = stored or message_pb2.ChatMessage()
    return chat_message(
        user_id="",
        content=value["content"],
        role=value.get("role", "user"),
        name=value.get("name", ""),
        ts=value.get("said_at"),
        metadata=previous.metadata,
        expire_ts=previous.expire_ts.ToDatetime(tzinfo=UTC) if previous.HasField("expire_ts") else None,
    )


def to_filter_options(conditions: Mapping[str, Any]) -> FilterOptions:
    """Convert the filter conditions of a LangGraph search.

    The supported conditions are `role`, and `said_at` with `$gte` or `$lt`.

    Raises:
        UnsupportedOperationError: a condition is not supported.
    """
    options: FilterOptions = {}
    for field, condition in conditions.items():
        for operator, value in (condition if isinstance(condition, Mapping) else {"$eq": condition}).items():
            options |= _to_filter_option(field, operator, value)
    return options


def _to_filter_option(field: str, operator: str, value: Any) -> FilterOptions:  # noqa: ANN401 - any value in a filter condition
    match field, operator:
        case "role", "$eq":
            return {"role": value}
        case "said_at", "$gte":
            return {"since": value}
        case "said_at", "$lt":
            return {"until": value}
    raise UnsupportedOperationError(
        f"unsupported filter {field} {operator}; supported: role, and said_at with $gte and $lt"
    )
