"""The fields of a message of the contract that have a name, however deep they lie; above all `user_id`.

They are found through the contract's descriptors and not by a list of ours, so a field that is added to the contract
tomorrow is looked at from its first day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

USER_ID: Final = "user_id"
_USERS: Final = frozenset({USER_ID})


def users_in(message: ProtoMessage) -> Iterator[str]:
    """Return the users that a message names, an unset field as an empty string."""
    for owner, name in fields_named(message, _USERS):
        yield getattr(owner, name)


def fields_named(message: ProtoMessage, names: frozenset[str]) -> Iterator[tuple[ProtoMessage, str]]:
    """Return each field that has one of the names, as the message that it stands in and its name."""
    for field in _leading_to(message.DESCRIPTOR, names):
        if field.message_type is None:
            yield message, field.name
        else:
            for inner in _messages(message, field):
                yield from fields_named(inner, names)


def has_fields_named(message_type: type[ProtoMessage], names: frozenset[str]) -> bool:
    """Return whether messages of a type can have a field with one of the names."""
    return bool(_leading_to(message_type.DESCRIPTOR, names))


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
