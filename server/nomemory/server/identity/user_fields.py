"""The users that a request names: every field `user_id`, however deep it lies.

They are found through the contract's descriptors and not by a list of ours, so a field that is added to the contract
tomorrow is looked at from its first day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

FIELD = "user_id"


def users_in(request: ProtoMessage) -> Iterator[str]:
    """Return the users that a request names, an unset field as an empty string."""
    for field in _leading_to_users(request.DESCRIPTOR):
        if field.name == FIELD:
            yield getattr(request, FIELD)
        else:
            for message in _messages(request, field):
                yield from users_in(message)


@cache
def _leading_to_users(message_type: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(field for field in message_type.fields if _leads_to_user(field, frozenset()))


def _leads_to_user(field: FieldDescriptor, seen: frozenset[str]) -> bool:
    inner = field.message_type
    if inner is None:
        return field.name == FIELD
    if inner.full_name in seen:
        return False
    return any(_leads_to_user(below, seen | {inner.full_name}) for below in inner.fields)


def _messages(request: ProtoMessage, field: FieldDescriptor) -> list[ProtoMessage]:
    value = getattr(request, field.name)
    if not field.is_repeated:
        return [value] if request.HasField(field.name) else []
    return list(value.values() if isinstance(value, Mapping) else value)
