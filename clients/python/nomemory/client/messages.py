"""Build a message, and a filter of messages, from plain Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, NotRequired, TypedDict

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.v1 import message_pb2

Moment = datetime | str
"""A time: a datetime with a time zone, or a text in RFC 3339 such as `2024-05-01T08:30:00Z`."""


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


class Narrowing(TypedDict, total=False):
    """The filter of a read. Absent or None: no filter.

    `since` is inclusive, `until` exclusive; both need a time zone. `metadata` has up to 4 entries that a message must
    have. Messages of `exclude_conversation_ids`, up to 16 conversations, are left out.
    """

    since: Moment | None
    until: Moment | None
    role: RoleName | None
    conversation_id: str | None
    metadata: Mapping[str, str] | None
    exclude_conversation_ids: Sequence[str] | None


class Reading(Narrowing, total=False):
    """What reads take: a filter, the fields to return (all by default), a write token whose write must be seen."""

    return_fields: Sequence[str] | None
    at_least: str


class Turn(TypedDict):
    """One turn of a conversation in progress: who speaks, and what they say (at most 4,000 characters)."""

    role: RoleName
    text: str


class NewMessage(TypedDict):
    """A message to write, as a dictionary; the fields are those of `chat_message`."""

    user_id: str
    role: RoleName
    content: str
    ts: NotRequired[Moment | None]
    message_id: NotRequired[str]
    name: NotRequired[str]
    conversation_id: NotRequired[str]
    metadata: NotRequired[Mapping[str, str]]
    embedding: NotRequired[Sequence[float]]
    expire_ts: NotRequired[Moment | None]
    retracts: NotRequired[Sequence[str]]


Spoken = Mapping[str, Any]
"""A message as chat APIs have it, `{"role": "user", "content": "…"}`, with what else of `chat_message` it may have."""

Writable = message_pb2.ChatMessage | NewMessage


def as_message(message: Writable | Spoken, **common: Any) -> message_pb2.ChatMessage:  # noqa: ANN401 - of its fields
    """Return the message that a dictionary describes. A message is returned as it is.

    Args:
        message: the fields of `chat_message`, or what a chat API has: of content in parts the texts, in lines.
        common: fields that it shares with others, and does not have itself.

    Raises:
        ValueError: as `chat_message`, or a part of the content is no text.
        TypeError: a field is missing, is given twice, or there is no such field.
    """
    if isinstance(message, message_pb2.ChatMessage):
        return message
    fields: dict[str, Any] = {**message}
    if not isinstance(fields.get("content", ""), str):
        fields["content"] = "\n".join(_text_of(part) for part in fields["content"] or ())
    fields["role"] = _OTHER_ROLES.get(fields.get("role", ""), fields.get("role", ""))
    return chat_message(**common, **fields)


def chat_message(  # noqa: PLR0913 - one argument per field of a message
    *,
    user_id: str,
    role: RoleName,
    content: str,
    ts: Moment | None = None,
    message_id: str = "",
    name: str = "",
    conversation_id: str = "",
    metadata: Mapping[str, str] = MappingProxyType({}),
    embedding: Sequence[float] = (),
    expire_ts: Moment | None = None,
    retracts: Sequence[str] = (),
) -> message_pb2.ChatMessage:
    """Make a message to write.

    Args:
        user_id: whose memory it belongs to.
        role: who said it.
        content: what was said.
        ts: when it was said; with a time zone. Finer than microseconds is cut off. None: now, by the server's clock.
        message_id: unique within the user; empty: the server generates one.
        name: the speaker, where a chat has more than one person.
        conversation_id: what groups messages.
        metadata: free text by key.
        embedding: a vector of the caller's own for `content`; empty: the server embeds.
        expire_ts: from when on no read returns it, after `ts`; None: it stays.
        retracts: ids of messages that it takes back, at most 32.

    Raises:
        ValueError: `ts` or `expire_ts` is no time or has no time zone, `role` is unknown, or a text is not valid
            Unicode.
    """
    return message_pb2.ChatMessage(
        message_id=message_id,
        ts=None if ts is None else timestamp("ts", ts),
        user_id=user_id,
        role=role_number(role),
        content=content,
        name=name,
        conversation_id=conversation_id,
        metadata=metadata,
        embedding=embedding,
        expire_ts=None if expire_ts is None else timestamp("expire_ts", expire_ts),
        retracts=retracts,
    )


def _text_of(part: Mapping[str, Any]) -> str:
    if "text" not in part:
        raise ValueError(f"content has a part of the type {part.get('type')!r}: only text is kept")
    return str(part["text"])


def timestamp(field: str, moment: Moment) -> Timestamp:
    """Convert a time for the wire.

    Args:
        field: what errors call it.
        moment: the time. Finer than microseconds is cut off.

    Raises:
        TypeError: it is neither a datetime nor a text.
        ValueError: it is no time in RFC 3339, it has no time zone (the same clock time elsewhere is another moment, so
            none is guessed), or in UTC it leaves the years 1 to 9999.
    """
    said = _parsed(field, moment) if isinstance(moment, str) else moment
    if not isinstance(said, datetime):
        raise TypeError(f"{field} must be a datetime or a text in RFC 3339: {moment!r}")
    if said.utcoffset() is None:
        raise ValueError(f"{field} has no time zone: {said.isoformat()}")
    converted = Timestamp()
    try:
        converted.FromDatetime(said)
    except OverflowError:
        raise ValueError(f"{field} is out of range in UTC: {said.isoformat()}") from None
    return converted


def _parsed(field: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.upper())  # RFC 3339 allows a small t and z
    except ValueError:
        raise ValueError(f"{field} is not a time in RFC 3339, such as 2024-05-01T08:30:00Z: {text!r}") from None


def role_number(name: str) -> message_pb2.Role.ValueType:
    """Return the number of a role.

    Raises:
        ValueError: there is no such role.
    """
    if name not in _ROLES:
        raise ValueError(f"role must be one of {', '.join(_ROLES)}: {name!r}")
    return _ROLES[name]


def role_name(number: message_pb2.Role.ValueType) -> str:
    """Return the name of a role. For a number that this client does not know, return the number as text."""
    return _ROLE_NAMES.get(number, str(number))
