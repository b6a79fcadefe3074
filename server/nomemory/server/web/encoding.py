"""Messages of the contract to JSON, as protobuf maps it: lowerCamelCase, fields that are set, 64-bit numbers as texts.

It is driven by the descriptors. protobuf's own `json_format` takes four times as long for a page.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, Final

import numpy as np
import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.web.bindings import is_map, value_of
from nomemory.server.web.well_known import WELL_KNOWN_WRITERS

Write = Callable[[Any], object]
"""Returns a value of a field as orjson can write it. Any: its type depends on the field."""
Add = Callable[[ProtoMessage, dict[str, object]], None]
"""Adds a field of a message to what orjson writes, if it is set."""

_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY
_LONG: Final = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})
_FLOATS: Final = frozenset({FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE})


def encode(message: ProtoMessage) -> bytes:
    """Return a message as JSON."""
    return dump(as_json(message))


def dump(value: object) -> bytes:
    """Return what `as_json` returned, or holds it, as JSON."""
    return orjson.dumps(value, option=_OPTIONS)


def as_json(message: ProtoMessage) -> object:
    """Return a message as orjson can write it."""
    return message_writer(message.DESCRIPTOR)(message)


@cache
def message_writer(of: Descriptor) -> Write:
    """Return what writes messages of a type."""
    special = WELL_KNOWN_WRITERS.get(of.full_name)
    if special is not None:
        return special
    plain = [field for field in of.fields if _is_plain(field)]
    adders: list[Add] = []
    names, values = [field.json_name for field in plain], _getter([field.name for field in plain])

    def write(message: ProtoMessage) -> object:
        found = {name: value for name, value in zip(names, values(message), strict=True) if value}
        for add in adders:
            add(message, found)
        return found

    # Filled afterwards: a type may have fields of its own type.
    adders.extend(_adder(field) for field in of.fields if field not in plain)
    return write


def _is_plain(field: FieldDescriptor) -> bool:
    """Return whether a field is written as it is, and left out where it is empty or 0."""
    return not (field.is_repeated or field.has_presence) and _value_writer(field) is None


def _getter(names: list[str]) -> Callable[[ProtoMessage], tuple[object, ...]]:
    """Return what reads all these fields at once, which costs a fraction of one after the other."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple(getattr(message, name) for name in names)


def _adder(field: FieldDescriptor) -> Add:
    name, json_name = field.name, field.json_name
    written = _all_writer(field) if field.is_repeated else _value_writer(field) or _as_it_is
    if field.has_presence and not field.is_repeated:

        def add(message: ProtoMessage, found: dict[str, object]) -> None:
            if message.HasField(name):
                found[json_name] = written(getattr(message, name))
    else:
        is_set = _is_written if field.cpp_type in _FLOATS and not field.is_repeated else bool

        def add(message: ProtoMessage, found: dict[str, object]) -> None:
            if is_set(value := getattr(message, name)):
                found[json_name] = written(value)

    return add


def _is_written(number: float) -> bool:
    """Return whether protobuf writes a number: it leaves out 0, but not -0.0."""
    return number != 0 or math.copysign(1, number) < 0


def _as_it_is(value: object) -> object:
    return value


def _all_writer(field: FieldDescriptor) -> Write:
    """Return what writes all values of a field that has several."""
    if is_map(field):
        return _map_writer(field)
    one = _value_writer(field)
    return list if one is None else lambda values: [one(value) for value in values]


def _value_writer(field: FieldDescriptor) -> Write | None:
    if field.message_type is not None:
        return _message_writer(field.message_type)
    if field.enum_type is not None:
        return _enum_writer(field.enum_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda value: base64.b64encode(value).decode()
    if field.cpp_type in _LONG:
        return str
    return _float_writer(field) if field.cpp_type in _FLOATS else None


def _message_writer(of: Descriptor) -> Write:
    """Return the writer of a type that may still be in the making."""
    special = WELL_KNOWN_WRITERS.get(of.full_name)
    return special or (lambda message: message_writer(of)(message))  # noqa: PLW0108 - not made yet


def _enum_writer(enum: EnumDescriptor) -> Write:
    names: Mapping[int, str] = {value.number: value.name for value in enum.values}
    return lambda number: names.get(number, number)


def _float_writer(field: FieldDescriptor) -> Write:
    # A float of four bytes has fewer digits than Python would write.
    fitted = np.float32 if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT else float

    def write(value: float) -> object:
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return fitted(value)

    return write


def _map_writer(field: FieldDescriptor) -> Write:
    written = _value_writer(value_of(field))
    # Looking each key up costs half of what `items()` does, which is Python's own of any mapping.
    if written is None:
        return lambda entries: {_key(key): entries[key] for key in entries}
    return lambda entries: {_key(key): written(entries[key]) for key in entries}


def _key(key: object) -> str:
    if type(key) is str:
        return key
    return str(key).lower() if isinstance(key, bool) else str(key)
