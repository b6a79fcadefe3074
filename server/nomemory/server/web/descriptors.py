"""What is asked of protobuf's descriptors."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor


def inner(field: FieldDescriptor) -> Descriptor:
    """Return the type of a field that is a message.

    Raises:
        TypeError: it is none.
    """
    if field.message_type is None:
        raise TypeError(field.full_name)
    return field.message_type


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def value_of(field: FieldDescriptor) -> FieldDescriptor:
    """Return what a map has as its values."""
    return inner(field).fields_by_name["value"]
