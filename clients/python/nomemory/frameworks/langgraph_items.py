"""A message as the value of an item in a LangGraph store, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from nomemory.client import chat_message, tool_results
from nomemory.client.messages import FilterOptions
from nomemory.v1 import message_pb2

FIELDS: Final = frozenset({"content", "role", "name", "said_at"})


class NotAMessageError(ValueError):
    """A store of messages was asked to do what messages cannot do."""


def value_of(message: message_pb2.ChatMessage) -> dict[str, Any]:
    """Return a message as a value: `content`, whole, `role`, `said_at`, and `name` where it has one."""
    shown = tool_results.message(message)
    return {name: one for name, one in shown.items() if name in FIELDS} | {"content": message.content}


def new_message(value: Mapping[str, Any], stored: message_pb2.ChatMessage | None) -> message_pb2.ChatMessage:
    """Return the message that a value describes, still without ids; without `role` the user's.

    Without `said_at` it was said when the message was whose place it takes, or now. What a value does not show of that
    message (its metadata, when it expires) stays.

    Raises:
        NotAMessageError: it has no text as `content`, or fields that a message has not.
        ValueError: as `chat_message`.
    """
    strange = value.keys() - FIELDS
    if strange or not isinstance(value.get("content"), str):
        raise NotAMessageError(
            f"this store keeps what was said: a value has `content`, a text, and perhaps {sorted(FIELDS - {'content'})}"
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
    """Return the filter that conditions stand for: `role` is one, `said_at` is from (`$gte`) or before (`$lt`) a time.

    Raises:
        NotAMessageError: it is another condition.
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
    raise NotAMessageError(f"there is no filter {field} {operator}: there are role, and said_at with $gte and $lt")
