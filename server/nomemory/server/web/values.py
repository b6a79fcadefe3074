"""Values of the contract as JSON has them: how each type is read, written and described."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import numpy as np
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

Json = object
"""What JSON stands for: a dict, a list, a str, an int, a float, a bool or None."""
Read = Callable[[Json], Any]
"""Returns the value of a field. Any: it is of the field's type."""

FLOAT_END: Final = 3.4028235677973366e38
"""What rounds to a number that four bytes have is below this."""
_INTEGER: Final = re.compile(r"-?\d{1,20}")
_NUMBER: Final = re.compile(r"-?\d{1,400}(\.\d{1,400})?([eE][+-]?\d{1,4})?")
_NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
_EXACT_SECONDS: Final = 1 << 32
"""Seconds up to which a float has every microsecond."""
_CAPITAL: Final = re.compile("[A-Z]")
_TIME_CHARS_MAX: Final = 64


class UnfitError(Exception):
    """A value does not fit its field; says what it should be, and never quotes it."""


@dataclass(frozen=True, slots=True)
class JsonType:
    """How JSON has the values of a type.

    Attributes:
        read: returns the value of a field; raises UnfitError.
        write: returns what orjson can write; None: the value as it is.
        schema: the type as JSON Schema has it; of an enum it is made where the names are.
    """

    read: Read
    write: Callable[[Any], object] | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)


@cache
def json_type(of: FieldDescriptor) -> JsonType | None:
    """Return how JSON has the values of a field; None: as an object with fields, or the entries of a map.

    Raises:
        KeyError: the field is of a type that no message of the contract has.
    """
    if of.message_type is not None:
        return _MESSAGES.get(of.message_type.full_name)
    if of.enum_type is not None:
        return _enum(of.enum_type)
    return _SCALARS[of.type]


def is_map(of: FieldDescriptor) -> bool:
    """Return whether a field is a map. Its keys are texts everywhere in the contract."""
    return of.message_type is not None and bool(of.message_type.GetOptions().map_entry)


def inner(of: FieldDescriptor) -> Descriptor:
    """Return the type of a field that is a message.

    Raises:
        TypeError: it is none.
    """
    if of.message_type is None:
        raise TypeError(of.full_name)
    return of.message_type


def value_of(of: FieldDescriptor) -> FieldDescriptor:
    """Return what a map has as its values."""
    return inner(of).fields_by_name["value"]


def _read_string(value: Json) -> str:
    if type(value) is not str:
        raise UnfitError("must be a string")
    return value


def _read_bool(value: Json) -> bool:
    if type(value) is not bool:
        raise UnfitError("must be true or false")
    return value


def _integer_reader(bits: int) -> Callable[[Json], int]:
    end = 1 << (bits - 1)

    def read(value: Json) -> int:
        number = value
        if (type(value) is str and _INTEGER.fullmatch(value)) or (type(value) is float and value.is_integer()):
            number = int(value)
        if type(number) is not int:
            raise UnfitError("must be a whole number")
        if not -end <= number < end:
            raise UnfitError(f"must be from {-end} to {end - 1}")
        return number

    return read


_read_int32: Final = _integer_reader(32)


def read_float(value: Json) -> float:
    """Return a number that four bytes have.

    Raises:
        UnfitError: it is none.
    """
    if type(value) is str and (value in _NO_NUMBERS or _NUMBER.fullmatch(value)):
        number = float(value)
    elif type(value) is int or type(value) is float:
        number = value if abs(value) < FLOAT_END else math.inf
    else:
        raise UnfitError("must be a number")
    if abs(number) >= FLOAT_END and value not in _NO_NUMBERS:
        raise UnfitError("is out of range")
    return number


def _write_float(value: float) -> object:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return np.float32(value)  # it has fewer digits than Python would write


def short_names(of: EnumDescriptor) -> dict[str, str]:
    """Return the values of an enum but its first, UNSPECIFIED: `user` for `ROLE_USER`. A request may say either."""
    prefix = of.values[0].name.removesuffix("UNSPECIFIED")
    return {value.name.removeprefix(prefix).lower(): value.name for value in of.values[1:]}


@cache
def _enum(of: EnumDescriptor) -> JsonType:
    names = {value.number: value.name for value in of.values}
    short = short_names(of)
    numbers = {name: number for number, name in names.items()}
    numbers |= {one: numbers[name] for one, name in short.items()}
    known = ", ".join(f"{one} ({name})" for one, name in short.items())

    def read(value: Json) -> int:
        try:
            # An unknown number is for the service to refuse, as over gRPC.
            return numbers[value] if type(value) is str and value in numbers else _read_int32(value)
        except UnfitError:
            raise UnfitError(f"is no {of.name}: there are {known}") from None

    return JsonType(read, lambda number: names.get(number, number))


def _text_reader(message: type[Timestamp | Duration], expected: str) -> Callable[[Json], Timestamp | Duration]:
    def read(value: Json) -> Timestamp | Duration:
        made = message()
        try:
            if type(value) is str and len(value) <= _TIME_CHARS_MAX:
                made.FromJsonString(value)
                return made
        except (ValueError, OverflowError):
            pass
        raise UnfitError(f"must be {expected}")

    return read


def _write_time(message: Timestamp) -> object:
    """Return a time as orjson writes it; finer than microseconds, or of another age, as text."""
    seconds, nanos = message.seconds, message.nanos
    if 0 <= seconds < _EXACT_SECONDS and not nanos % 1_000:
        return datetime.fromtimestamp(seconds + nanos * 1e-9, UTC)
    return message.ToJsonString()


def _read_mask(value: Json) -> FieldMask:
    """Read the paths of a mask; `messageId,ts` and `message_id,ts` are the same."""
    if type(value) is not str:
        raise UnfitError("must be names of fields, separated by commas")
    return FieldMask(paths=[_CAPITAL.sub(lambda found: f"_{found[0].lower()}", one) for one in value.split(",") if one])


def _read_struct(value: Json) -> Struct:
    try:
        return json_format.ParseDict(value, Struct())  # type: ignore[arg-type]  # it says if it is none
    except (json_format.ParseError, TypeError, ValueError, OverflowError):
        raise UnfitError("is no Struct") from None


_SCALARS: Final[Mapping[int, JsonType]] = {
    FieldDescriptor.TYPE_STRING: JsonType(_read_string, None, {"type": "string"}),
    FieldDescriptor.TYPE_BOOL: JsonType(_read_bool, None, {"type": "boolean"}),
    FieldDescriptor.TYPE_INT32: JsonType(_read_int32, None, {"type": "integer", "format": "int32"}),
    FieldDescriptor.TYPE_INT64: JsonType(_integer_reader(64), str, {"type": "string", "format": "int64"}),
    FieldDescriptor.TYPE_FLOAT: JsonType(read_float, _write_float, {"type": "number", "format": "float"}),
}
_MESSAGES: Final[Mapping[str, JsonType]] = {
    Timestamp.DESCRIPTOR.full_name: JsonType(
        _text_reader(Timestamp, "a time such as 2026-03-01T08:00:00Z"),
        _write_time,
        {"type": "string", "format": "date-time"},
    ),
    Duration.DESCRIPTOR.full_name: JsonType(
        _text_reader(Duration, "a duration such as 1.5s"),
        Duration.ToJsonString,
        {"type": "string", "examples": ["1.5s"]},
    ),
    FieldMask.DESCRIPTOR.full_name: JsonType(
        _read_mask, FieldMask.ToJsonString, {"type": "string", "examples": ["messageId,ts"]}
    ),
    Struct.DESCRIPTOR.full_name: JsonType(
        _read_struct, json_format.MessageToDict, {"type": "object", "additionalProperties": True}
    ),
}
