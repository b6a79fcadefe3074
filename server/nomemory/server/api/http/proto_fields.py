"""Properties of protobuf fields and enums in the JSON mapping."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

_WELL_KNOWN: Final = "google.protobuf."
"""The package of the well-known types, such as Timestamp. They have special JSON representations."""


@cache
def map_fields_by_json_key(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return the fields of a message by JSON key, such as `pageSize` and `page_size` for the same field."""
    return {key: field for field in message.fields for key in (field.json_name, field.name)}


@cache
def map_enums_and_objects_by_json_key(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return the enum fields and the nested messages of a message by JSON key."""
    fields = map_fields_by_json_key(message).items()
    return {key: field for key, field in fields if field.enum_type is not None or is_json_object(field)}


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a protobuf map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def get_map_value_field(field: FieldDescriptor) -> FieldDescriptor:
    """Return the field descriptor of a map's values."""
    return get_message_type(field).fields_by_name["value"]


def get_message_type(field: FieldDescriptor) -> Descriptor:
    """Return the descriptor of a field's message type.

    Raises:
        TypeError: the field is not a message.
    """
    if field.message_type is None:
        raise TypeError(field.full_name)
    return field.message_type


def is_json_object(field: FieldDescriptor) -> bool:
    """Return whether the JSON value of a field is an object whose keys are the fields of a message."""
    inner = field.message_type
    return inner is not None and not is_map(field) and not inner.full_name.startswith(_WELL_KNOWN)


@cache
def map_short_enum_names(enum: EnumDescriptor) -> Mapping[str, str]:
    """Return the full names of an enum's values by short name, such as `ROLE_USER` by `user`, without UNSPECIFIED."""
    prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
    return {value.name.removeprefix(prefix).lower(): value.name for value in enum.values[1:]}
