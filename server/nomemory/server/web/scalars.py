"""Scalars of the contract out of JSON, and out of texts as paths and queries have them."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from nomemory.server.web.json_text import Json

FLOAT_END: Final = 3.4028235677973366e38
"""What rounds to a number that four bytes have is below this."""
_INTEGER: Final = re.compile(r"-?\d{1,20}")
_NUMBER: Final = re.compile(r"-?\d{1,400}(\.\d{1,400})?([eE][+-]?\d{1,4})?")
_NO_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGERS: Final[Mapping[int, tuple[int, int]]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
_EXACT: Final = float(1 << 53)
"""Up to here every whole number is a float."""

# Any: what a field takes depends on its type.
Read = Callable[[Json], Any]


class UnfitError(Exception):
    """A value does not fit its field; says what it should be, and never quotes it."""


def scalar_reader(field: FieldDescriptor) -> Read:
    """Return what reads a field that is no message; it raises UnfitError."""
    if field.cpp_type in _INTEGERS:
        return _integer_reader(*_INTEGERS[field.cpp_type])
    if field.enum_type is not None:
        return _enum_reader(field.enum_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _read_bytes
    return {
        FieldDescriptor.CPPTYPE_STRING: _read_string,
        FieldDescriptor.CPPTYPE_BOOL: _read_bool,
        FieldDescriptor.CPPTYPE_FLOAT: _float_reader(FLOAT_END),
        FieldDescriptor.CPPTYPE_DOUBLE: _float_reader(math.inf),
    }[field.cpp_type]


def text_reader(field: FieldDescriptor) -> Callable[[str], Json]:
    """Return what makes of a text what JSON would have for a field that is no message."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return lambda text: {"true": True, "false": False}.get(text, text)
    if field.enum_type is not None:
        return lambda text: int(text) if _INTEGER.fullmatch(text) else text
    return lambda text: text


def _read_string(value: Json) -> str:
    if type(value) is not str:
        raise UnfitError("must be a string")
    return value


def _read_bool(value: Json) -> bool:
    if type(value) is not bool:
        raise UnfitError("must be true or false")
    return value


def _read_bytes(value: Json) -> bytes:
    text = _read_string(value)
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise UnfitError("must be base64") from None


def _integer_reader(least: int, most: int) -> Read:
    def read(value: Json) -> int:
        number = value if type(value) is int else _whole(value)
        if not least <= number <= most:
            raise UnfitError(f"must be from {least} to {most}")
        return number

    return read


def _whole(value: Json) -> int:
    if type(value) is str and _INTEGER.fullmatch(value):
        return int(value)
    if type(value) is float and abs(value) <= _EXACT and value.is_integer():
        return int(value)
    raise UnfitError("must be a whole number")


def _float_reader(end: float) -> Read:
    def read(value: Json) -> float:
        if type(value) is str and value in _NO_NUMBERS:
            return _NO_NUMBERS[value]
        number = _number(value)
        if abs(number) >= end:
            raise UnfitError("is out of range")
        return number

    return read


def _number(value: Json) -> float:
    if type(value) is str and not _NUMBER.fullmatch(value):
        raise UnfitError("must be a number")
    if type(value) not in {int, float, str}:
        raise UnfitError("must be a number")
    try:
        return float(value)  # type: ignore[arg-type]  # one of the three
    except OverflowError:
        raise UnfitError("is out of range") from None


def _enum_reader(enum: EnumDescriptor) -> Read:
    numbers = {value.name: value.number for value in enum.values}
    least, most = _INTEGERS[FieldDescriptor.CPPTYPE_INT32]

    def read(value: Json) -> int:
        # An unknown number is for the service to refuse, as over gRPC.
        number = numbers.get(value) if type(value) is str else value
        if type(number) is not int or not least <= number <= most:
            raise UnfitError(f"is no {enum.name}")
        return number

    return read
