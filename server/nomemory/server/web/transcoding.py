"""JSON to messages of the contract and back, as protobuf maps it, by their descriptors.

It is in lowerCamelCase, of fields that are set, with 64-bit numbers as texts. Fields of a request go by both of their
names, `page_size` and `pageSize`, and every violation is collected. protobuf's own `json_format` stops at the first
violation, and takes two to eight times as long to read, four times as long to write a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import jiter
import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.faults import Fault, Reason, Violation, invalid
from nomemory.server.web.values import FLOAT_END, Json, Read, UnfitError, is_map, json_type, read_float, value_of

_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY
_QUOTED_CHARS: Final = 40
_VIOLATIONS_MAX: Final = 1_000
_PLACE: Final = re.compile(r"at line \d+ column \d+$")
_NUMBERS: Final = re.compile(rb"\[[-+.0-9eE, \t\r\n]*\]")
"""A plain array of numbers. No quote is in it, so none of them begins or ends within a string."""


def parse(raw: bytes, values_max: int, numbers_max: int) -> Json:
    """Return what a text stands for.

    Args:
        raw: the text.
        values_max: how many values it may have, but for the numbers of plain arrays.
        numbers_max: how many numbers in plain arrays.

    Raises:
        Fault: MALFORMED_REQUEST, it is not JSON in UTF-8, has a key twice, is deeper than 200 levels, or may have too
            many values: a short one takes thirty times its length in memory.
    """
    _refuse_many(raw, values_max, numbers_max)
    try:
        return jiter.from_json(raw, allow_inf_nan=False, cache_mode="none", catch_duplicate_keys=True)
    except ValueError as error:
        place = _PLACE.search(str(error))  # its other words may quote a key
        where = f", {place[0]}" if place else ""
        raise _malformed(f"is not valid JSON in UTF-8, or has a key twice{where}") from None


def _refuse_many(raw: bytes, values_max: int, numbers_max: int) -> None:
    if len(raw) <= values_max:
        return
    values = sum(map(raw.count, (b",", b"[", b"{")))
    if values <= values_max:
        return
    numbers = sum(found[0].count(b",") for found in _NUMBERS.finditer(raw))
    if values - numbers > values_max:
        raise _malformed(f"may have more than {values_max} values, not counting the numbers of plain arrays")
    if numbers > numbers_max:
        raise _malformed(f"may have more than {numbers_max} numbers")


def _malformed(wrong: str) -> Fault:
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, f"the request {wrong}")


def decode(message: ProtoMessage, value: Json, violations: list[Violation], path: str = "") -> None:
    """Set the fields of a message that an object names; `null` leaves a field unset.

    Args:
        message: where they are set.
        value: the object.
        violations: gets whatever is wrong.
        path: of the message within the request.

    Raises:
        Fault: INVALID_FIELD, there are more than 1,000 violations: the rest is not looked at.
    """
    if not isinstance(value, dict):
        _violate(violations, path, "must be an object")
        return
    fields, prefix = _fields(message.DESCRIPTOR), f"{path}." if path else ""
    seen: set[str] = set()
    for key, given in value.items():
        field = fields.get(key)
        if field is None:
            _violate(violations, prefix + shown(key), f"is no field of {message.DESCRIPTOR.name}")
        elif field.name in seen:
            _violate(violations, prefix + field.name, "is given twice")
        elif given is None:
            seen.add(field.name)
        elif field.group in seen:
            _violate(violations, prefix + field.name, f"{field.group} is set twice")
        else:
            seen |= {field.name, field.group}
            field.put(message, given, violations, prefix + field.name)


def shown(key: str) -> str:
    """Return a key of the client's own as a violation may have it."""
    return "".join(one if one.isprintable() else "?" for one in key[:_QUOTED_CHARS]) or '""'


@cache
def _fields(of: Descriptor) -> Mapping[str, _Field]:
    return {name: field for one in of.fields for field in [_field(one)] for name in (one.name, one.json_name)}


def _field(of: FieldDescriptor) -> _Field:
    oneof = of.containing_oneof
    group = of.name if oneof is None or len(oneof.fields) == 1 else oneof.name
    is_of_entries = is_map(of)
    value_type = json_type(value_of(of) if is_of_entries else of)
    return _Field(of.name, group, None if value_type is None else value_type.read, of.is_repeated, is_of_entries)


@dataclass(frozen=True, slots=True)
class _Field:
    """Sets one field.

    Attributes:
        name: its name in the contract.
        group: which one of several fields it is one of; by itself: its name.
        read: reads a value; None: it is a message with fields.
        is_repeated: it has several.
        is_map: each of them has a key.
    """

    name: str
    group: str
    read: Read | None
    is_repeated: bool
    is_map: bool

    def put(self, message: ProtoMessage, given: Json, violations: list[Violation], path: str) -> None:
        """Set it in a message."""
        if self.read is None:
            self._put_messages(getattr(message, self.name), given, violations, path)
        elif self.is_map:
            _put_entries(getattr(message, self.name), self.read, given, violations, path)
        elif self.is_repeated:
            _put_all(getattr(message, self.name), self.read, given, violations, path)
        else:
            for value in _fitting(self.read, given, violations, path):
                if isinstance(value, ProtoMessage):
                    getattr(message, self.name).CopyFrom(value)
                else:
                    setattr(message, self.name, value)

    # Any, here and below: the containers of protobuf have the types of their fields.
    def _put_messages(self, below: Any, given: Json, violations: list[Violation], path: str) -> None:  # noqa: ANN401
        if self.is_repeated:
            for at, one in _each(given, violations, path):
                decode(below.add(), one, violations, at)
        else:
            below.SetInParent()
            decode(below, given, violations, path)


def _put_all(values: Any, read: Read, given: Json, violations: list[Violation], path: str) -> None:  # noqa: ANN401
    if read is read_float and isinstance(given, list) and _are_plain(given):
        values.extend(given)  # a vector; one number at a time would take long
        return
    for at, one in _each(given, violations, path):
        values.extend(_fitting(read, one, violations, at))


def _put_entries(entries: Any, read: Read, given: Json, violations: list[Violation], path: str) -> None:  # noqa: ANN401
    if not isinstance(given, dict):
        _violate(violations, path, "must be an object")
        return
    for key, one in given.items():
        for value in _fitting(read, one, violations, path):
            entries[key] = value


def _each(given: Json, violations: list[Violation], path: str) -> Iterator[tuple[str, Json]]:
    if isinstance(given, list):
        return ((f"{path}[{position}]", one) for position, one in enumerate(given))
    _violate(violations, path, "must be an array")
    return iter(())


def _are_plain(values: list[Any]) -> bool:
    return set(map(type, values)) <= {float, int} and (not values or max(map(abs, values)) < FLOAT_END)


def _fitting(read: Read, given: Json, violations: list[Violation], path: str) -> tuple[Any, ...]:
    """Return the value of a field, if what is given fits it."""
    try:
        return (read(given),)
    except UnfitError as error:
        _violate(violations, path, str(error))
        return ()


def _violate(violations: list[Violation], path: str, wrong: str) -> None:
    if len(violations) >= _VIOLATIONS_MAX:
        more = Violation("the request", f"has more than {_VIOLATIONS_MAX} violations: the rest was not looked at")
        raise invalid([more, *violations])
    violations.append(Violation(path or "the request", wrong))


def encode(message: ProtoMessage) -> bytes:
    """Return a message as JSON."""
    return dump(as_json(message))


def dump(value: object) -> bytes:
    """Return what `as_json` returned, or holds it, as JSON."""
    return orjson.dumps(value, option=_OPTIONS)


def as_json(message: ProtoMessage) -> dict[str, object]:
    """Return a message as orjson can write it."""
    found: dict[str, object] = {}
    for field, value in message.ListFields():
        name, write = _written(field)
        found[name] = value if write is None else write(value)
    return found


@cache
def _written(field: FieldDescriptor) -> tuple[str, Callable[[Any], object] | None]:
    """Return how JSON calls a field, and what makes of its value what orjson can write; None: it can."""
    return field.json_name, _writer_of_all(field) if field.is_repeated else _writer(field)


def _writer_of_all(field: FieldDescriptor) -> Callable[[Any], object]:
    if is_map(field):
        write = _writer(value_of(field))
        # Looking each key up costs half of what `items()` does, which is Python's own of any mapping.
        return lambda entries: {key: entries[key] if write is None else write(entries[key]) for key in entries}
    one = _writer(field)
    return list if one is None else lambda values: [one(value) for value in values]


def _writer(field: FieldDescriptor) -> Callable[[Any], object] | None:
    of = json_type(field)
    return as_json if of is None else of.write
