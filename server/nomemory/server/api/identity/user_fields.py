"""The users whom a message of the contract names, however deep that lies, and their namespace in and out of it.

They are found through the contract's descriptors and not by a list of ours, so a field that is added to the contract
tomorrow is looked at from its first day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.identity.namespace import Namespace

_USERS: Final = frozenset({"user_id"})
_SHARED_COUNTERS: Final = frozenset({"sequence", "checkpoint", "texts_embedded"})
"""Counters of the whole server: two looks at one would tell how much others wrote in between."""


def user_ids_in(message: ProtoMessage) -> Iterator[str]:
    """Return the users that a message names, an unset field as an empty string."""
    for owner, name in _fields_named(message, _USERS):
        yield getattr(owner, name)


def add_namespace(request: ProtoMessage, namespace: Namespace) -> None:
    """Put the prefix before every user id in a request."""
    for owner, name in _fields_named(request, _USERS):
        setattr(owner, name, namespace.stored_id(getattr(owner, name)))


def remove_namespace(raw: bytes, reply_type: type[ProtoMessage], namespace: Namespace) -> bytes:
    """Return a reply without the prefix of its user ids, and without counters that other namespaces move.

    Raises:
        ForeignUserError: it names a user outside of the namespace.
    """
    if not _leading_to(reply_type.DESCRIPTOR, _USERS | _SHARED_COUNTERS):
        return raw
    reply = reply_type.FromString(raw)
    for owner, name in _fields_named(reply, _USERS):
        setattr(owner, name, namespace.external_id(getattr(owner, name)))
    for owner, name in _fields_named(reply, _SHARED_COUNTERS):
        owner.ClearField(name)
    return reply.SerializeToString()


def _fields_named(message: ProtoMessage, names: frozenset[str]) -> Iterator[tuple[ProtoMessage, str]]:
    """Return each field that has one of the names, as the message that it stands in and its name."""
    for field in _leading_to(message.DESCRIPTOR, names):
        if field.message_type is None:
            yield message, field.name
        else:
            for inner in _messages(message, field):
                yield from _fields_named(inner, names)


@cache
def _leading_to(message_type: Descriptor, names: frozenset[str]) -> tuple[FieldDescriptor, ...]:
    return tuple(field for field in message_type.fields if _leads_to(field, names, frozenset()))


def _leads_to(field: FieldDescriptor, names: frozenset[str], seen: frozenset[str]) -> bool:
    inner = field.message_type
    if inner is None:
        return field.name in names
    if inner.full_name in seen:
        return False
    return any(_leads_to(below, names, seen | {inner.full_name}) for below in inner.fields)


def _messages(message: ProtoMessage, field: FieldDescriptor) -> list[ProtoMessage]:
    value = getattr(message, field.name)
    if not field.is_repeated:
        return [value] if message.HasField(field.name) else []
    return list(value.values() if isinstance(value, Mapping) else value)
