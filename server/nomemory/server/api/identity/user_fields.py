"""User id fields in protobuf messages.

The functions of this module find the fields at any depth through the message descriptors, and therefore also find
fields that are added to the API later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.identity.namespace import Namespace

_USER_IDS: Final = frozenset({"user_id"})
_SHARED_COUNTERS: Final = frozenset({"sequence", "checkpoint", "texts_embedded"})
"""Server-wide counters. Their changes would reveal the write activity of other namespaces."""


def find_user_ids(message: ProtoMessage) -> Iterator[str]:
    """Yield the value of each user id field in a message, which is empty if the field is unset."""
    for owner, name in _find_fields(message, _USER_IDS):
        yield getattr(owner, name)


def add_namespace(request: ProtoMessage, namespace: Namespace) -> None:
    """Add the namespace prefix to all user ids in a request."""
    for owner, name in _find_fields(request, _USER_IDS):
        setattr(owner, name, namespace.to_stored_id(getattr(owner, name)))


def remove_namespace(raw: bytes, reply_type: type[ProtoMessage], namespace: Namespace) -> bytes:
    """Remove all server-wide counters, and the namespace prefix of all user ids, from an encoded response.

    Raises:
        ForeignUserError: a user id is outside the namespace.
    """
    if not _find_fields_leading_to(reply_type.DESCRIPTOR, _USER_IDS | _SHARED_COUNTERS):
        return raw
    reply = reply_type.FromString(raw)
    for owner, name in _find_fields(reply, _USER_IDS):
        setattr(owner, name, namespace.to_external_id(getattr(owner, name)))
    for owner, name in _find_fields(reply, _SHARED_COUNTERS):
        owner.ClearField(name)
    return reply.SerializeToString()


def _find_fields(message: ProtoMessage, names: frozenset[str]) -> Iterator[tuple[ProtoMessage, str]]:
    """Yield the containing message and the name of each field that has one of the given names."""
    for field in _find_fields_leading_to(message.DESCRIPTOR, names):
        if field.message_type is None:
            yield message, field.name
        else:
            for nested in _list_nested_messages(message, field):
                yield from _find_fields(nested, names)


@cache
def _find_fields_leading_to(message_type: Descriptor, names: frozenset[str]) -> tuple[FieldDescriptor, ...]:
    """Return the fields of a message type that have one of the given names, or contain such a field at any depth."""
    return tuple(field for field in message_type.fields if _contains_field(field, names, frozenset()))


def _contains_field(field: FieldDescriptor, names: frozenset[str], visited: frozenset[str]) -> bool:
    nested_type = field.message_type
    if nested_type is None:
        return field.name in names
    if nested_type.full_name in visited:
        return False
    return any(_contains_field(nested, names, visited | {nested_type.full_name}) for nested in nested_type.fields)


def _list_nested_messages(message: ProtoMessage, field: FieldDescriptor) -> list[ProtoMessage]:
    value = getattr(message, field.name)
    if not field.is_repeated:
        return [value] if message.HasField(field.name) else []
    return list(value.values() if isinstance(value, Mapping) else value)
