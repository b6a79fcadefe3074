"""Fields and enums of protobuf messages, as the JSON mapping sees them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

_WELL_KNOWN: Final = "google.protobuf."
"""Types of this package, such as Timestamp, have a JSON form of their own."""


@cache
def fields_by_json_key(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return the fields of a message by the keys that JSON may use: `pageSize` and `page_size`."""
    return {key: field for field in message.fields for key in (field.json_name, field.name)}


@cache
def enums_and_objects_by_json_key(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return those of the fields that are enums, or objects in which enums may be."""
    fields = fields_by_json_key(message).items()
    return {key: field for key, field in fields if field.enum_type is not None or is_json_object(field)}


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map. In the contract every map has strings as its keys."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def map_value(field: FieldDescriptor) -> FieldDescriptor:
    """Return the field of a map's values."""
    return message_type(field).fields_by_name["value"]


def message_type(field: FieldDescriptor) -> Descriptor:
    """Return the type of a field that is a message.

    Raises:
        TypeError: the field is not a message.
    """
    if field.message_type is None:
        raise TypeError(field.full_name)
    return field.message_type


def is_json_object(field: FieldDescriptor) -> bool:
    """Return whether JSON shows the field's value as an object with the fields of a message."""
    inner = field.message_type
    return inner is not None and not is_map(field) and not inner.full_name.startswith(_WELL_KNOWN)


@cache
def short_enum_names(enum: EnumDescriptor) -> Mapping[str, str]:
    """Return the names of an enum's values by their short names: `ROLE_USER` by `user`. UNSPECIFIED has none."""
    prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
    return {value.name.removeprefix(prefix).lower(): value.name for value in enum.values[1:]}
