"""Build messages from plain Python values, and the types of filter and read options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, NotRequired, TypedDict

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.v1 import message_pb2

TimeLike = datetime | str
"""A timezone-aware datetime, or an RFC 3339 string such as `2024-05-01T08:30:00Z`."""


RoleName = Literal["user", "assistant", "system", "tool"]
_ROLES: Final[Mapping[str, message_pb2.Role.ValueType]] = MappingProxyType(
    {
        "user": message_pb2.ROLE_USER,
        "assistant": message_pb2.ROLE_ASSISTANT,
        "system": message_pb2.ROLE_SYSTEM,
        "tool": message_pb2.ROLE_TOOL,
    }
)
_OTHER_ROLES: Final = MappingProxyType({"developer": "system", "function": "tool"})
_ROLE_NAMES: Final = MappingProxyType({number: name for name, number in _ROLES.items()})


class FilterOptions(TypedDict, total=False):
    """Options that filter messages.

    An option that is missing or None has no effect. `since` is inclusive, and `until` is exclusive. `metadata` has up
    to 4 entries, all of which must match. `exclude_conversation_ids` has up to 16 conversation ids.
    """

    since: TimeLike | None
    until: TimeLike | None
    role: RoleName | None
    conversation_id: str | None
    metadata: Mapping[str, str] | None
    exclude_conversation_ids: Sequence[str] | None


class ReadOptions(FilterOptions, total=False):
    """Options of methods that read messages: filters, the fields to return, and a write token."""

    return_fields: Sequence[str] | None
    at_least: str


class Turn(TypedDict):
    """A turn of the current conversation. `text` has at most 4,000 characters."""

    role: RoleName
    text: str


class NewMessage(TypedDict):
    """A dictionary with the fields of a message to write. `chat_message` documents the fields."""

    user_id: str
    role: RoleName
    content: str
    ts: NotRequired[TimeLike | None]
    message_id: NotRequired[str]
    name: NotRequired[str]
    conversation_id: NotRequired[str]
    metadata: NotRequired[Mapping[str, str]]
    embedding: NotRequired[Sequence[float]]
    expire_ts: NotRequired[TimeLike | None]
    retracts: NotRequired[Sequence[str]]


ChatAPIMessage = Mapping[str, Any]
"""A message in chat API format, `{"role": "user", "content": "…"}`, with optional fields of `chat_message`."""

Writable = message_pb2.ChatMessage | NewMessage


def to_chat_message(message: Writable | ChatAPIMessage, **common: Any) -> message_pb2.ChatMessage:  # noqa: ANN401 - of its fields
    """Convert a dictionary to a `ChatMessage`. A `ChatMessage` is returned unchanged.

    Args:
        message: the fields of `chat_message`, or a message in the format of chat APIs, whose text parts are joined by
            line breaks.
        common: values for fields of `chat_message` that `message` does not set.

    Raises:
        ValueError: a value is invalid (see `chat_message`), or a content part is not text.
        TypeError: a field is missing, unknown, or set in both `message` and `common`.
    """
    if isinstance(message, message_pb2.ChatMessage):
        return message
    fields: dict[str, Any] = {**message}
    if not isinstance(fields.get("content", ""), str):
        fields["content"] = "\n".join(_extract_part_text(part) for part in fields["content"] or ())
    fields["role"] = _OTHER_ROLES.get(fields.get("role", ""), fields.get("role", ""))
    return chat_message(**common, **fields)


def chat_message(  # noqa: PLR0913 - one argument per field of a message
    *,
    user_id: str,
    role: RoleName,
    content: str,
    ts: TimeLike | None = None,
    message_id: str = "",
    name: str = "",
    conversation_id: str = "",
    metadata: Mapping[str, str] = MappingProxyType({}),
    embedding: Sequence[float] = (),
    expire_ts: TimeLike | None = None,
    retracts: Sequence[str] = (),
) -> message_pb2.ChatMessage:
    """Create a message to write.

    Args:
        user_id: the user whose memory the message belongs to.
        role: the author's role, such as `user` or `assistant`.
        content: the text.
        ts: the time at which the message was sent, truncated to microseconds. The default is the server's current time.
        message_id: the id, which is unique per user. By default, the server generates it.
        name: the author's name, for chats with several people.
        conversation_id: the conversation that the message belongs to, if any.
        metadata: arbitrary string keys and values.
        embedding: the vector of `content`. By default, the server computes it.
        expire_ts: the time after which the message is no longer returned; must be after `ts`. By default, a message
            does not expire.
        retracts: ids of the messages that this message retracts, at most 32.

    Raises:
        ValueError: a time is invalid or has no time zone, `role` is unknown, or a text is not valid Unicode.
    """
    return message_pb2.ChatMessage(
        message_id=message_id,
        ts=None if ts is None else to_timestamp("ts", ts),
        user_id=user_id,
        role=to_role_value(role),
        content=content,
        name=name,
        conversation_id=conversation_id,
        metadata=metadata,
        embedding=embedding,
        expire_ts=None if expire_ts is None else to_timestamp("expire_ts", expire_ts),
        retracts=retracts,
    )


def _extract_part_text(part: Mapping[str, Any]) -> str:
    if "text" not in part:
        raise ValueError(f"content: unsupported part type {part.get('type')!r}; only text is supported")
    return str(part["text"])


def to_timestamp(field: str, time: TimeLike) -> Timestamp:
    """Convert a datetime or RFC 3339 text to a protobuf timestamp, truncated to microseconds.

    Args:
        field: the name of the field, for error messages.
        time: the time, with a time zone.

    Raises:
        TypeError: the value is neither a datetime nor a string.
        ValueError: the value is not RFC 3339, has no time zone, or is outside the years 1 to 9999 in UTC.
    """
    parsed = _parse_time(field, time) if isinstance(time, str) else time
    if not isinstance(parsed, datetime):
        raise TypeError(f"{field} must be a datetime or an RFC 3339 string, got {time!r}")
    if parsed.utcoffset() is None:
        raise ValueError(f"{field} has no time zone: {parsed.isoformat()}")
    converted = Timestamp()
    try:
        converted.FromDatetime(parsed)
    except OverflowError:
        raise ValueError(f"{field} must be between the years 1 and 9999 in UTC, got {parsed.isoformat()}") from None
    return converted


def _parse_time(field: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.upper())  # RFC 3339 allows a small t and z
    except ValueError:
        raise ValueError(f"{field} must be an RFC 3339 time such as 2024-05-01T08:30:00Z, got {text!r}") from None


def to_role_value(name: str) -> message_pb2.Role.ValueType:
    """Convert the name of a role, such as `user`, to its enum value.

    Raises:
        ValueError: the role is unknown.
    """
    if name not in _ROLES:
        raise ValueError(f"role must be one of {', '.join(_ROLES)}; got {name!r}")
    return _ROLES[name]


def to_role_name(number: message_pb2.Role.ValueType) -> str:
    """Convert the enum value of a role to its name. An unknown value becomes a number as text."""
    return _ROLE_NAMES.get(number, str(number))
