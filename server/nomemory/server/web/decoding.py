"""JSON to messages of the contract, as protobuf maps it, by their descriptors.

Every violation is collected. Fields go by both of their names, `page_size` and `pageSize`. protobuf's own `json_format`
stops at the first violation, and takes two to eight times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.faults import Violation, invalid
from nomemory.server.web.bindings import inner, is_map, value_of
from nomemory.server.web.json_text import Json
from nomemory.server.web.scalars import FLOAT_END, Read, UnfitError, scalar_reader
from nomemory.server.web.well_known import WELL_KNOWN_READERS

_QUOTED_CHARS: Final = 40
_VIOLATIONS_MAX: Final = 1_000
_FLOATS: Final = frozenset({FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE})

Put = Callable[[ProtoMessage, str, Json, list[Violation]], None]
"""Puts a value into a field of a message. The text is the field's path, for violations."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    put: Put
    oneof: str | None


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
    reader = WELL_KNOWN_READERS.get(message.DESCRIPTOR.full_name)
    if reader is not None:
        _noting(path, violations, partial(reader, message, value))
    elif isinstance(value, dict):
        _decode_object(message, value, violations, f"{path}." if path else "")
    else:
        _violate(violations, path, "must be an object")


def _decode_object(message: ProtoMessage, value: Mapping[str, Json], violations: list[Violation], prefix: str) -> None:
    fields = _fields(message.DESCRIPTOR)
    seen: set[str] = set()
    for key, given in value.items():
        field = fields.get(key)
        if field is None:
            _violate(violations, prefix + _shown(key), f"is no field of {message.DESCRIPTOR.name}")
            continue
        path = prefix + field.name
        if field.name in seen or (field.oneof in seen and given is not None):
            _violate(violations, path, "is given twice" if field.name in seen else f"{field.oneof} is set twice")
            continue
        seen.add(field.name)
        if given is not None:
            if field.oneof:
                seen.add(field.oneof)
            field.put(message, path, given, violations)


def _shown(key: str) -> str:
    """Return a key of the client's own as a violation may have it."""
    return "".join(one if one.isprintable() else "?" for one in key[:_QUOTED_CHARS]) or '""'


@cache
def _fields(of: Descriptor) -> Mapping[str, _Field]:
    found: dict[str, _Field] = {}
    for field in of.fields:
        found[field.name] = found[field.json_name] = _Field(field.name, _putter(field), _oneof(field))
    return found


def _oneof(field: FieldDescriptor) -> str | None:
    """Return which one of several fields it is one of; a field that is only `optional` has a oneof of its own."""
    oneof = field.containing_oneof
    return oneof.name if oneof is not None and len(oneof.fields) > 1 else None


def _putter(field: FieldDescriptor) -> Put:
    if is_map(field):
        return _map_putter(field)
    if field.message_type is not None:
        return _messages_putter(field.name) if field.is_repeated else _message_putter(field.name)
    return _scalars_putter(field) if field.is_repeated else _scalar_putter(field)


def _scalar_putter(field: FieldDescriptor) -> Put:
    read, name = scalar_reader(field), field.name

    def put(message: ProtoMessage, path: str, value: Json, violations: list[Violation]) -> None:
        try:
            setattr(message, name, read(value))
        except UnfitError as error:
            _violate(violations, path, str(error))

    return put


def _message_putter(name: str) -> Put:
    def put(message: ProtoMessage, path: str, value: Json, violations: list[Violation]) -> None:
        below: ProtoMessage = getattr(message, name)
        below.SetInParent()
        decode(below, value, violations, path)

    return put


def _scalars_putter(field: FieldDescriptor) -> Put:
    read, name, are_floats = scalar_reader(field), field.name, field.cpp_type in _FLOATS

    def put(message: ProtoMessage, path: str, value: Json, violations: list[Violation]) -> None:
        if are_floats and isinstance(value, list) and _are_plain(value):
            getattr(message, name).extend(value)  # a vector; one number at a time would take long
            return
        for position, one in _each(path, value, violations):
            _noting(position, violations, partial(_append, getattr(message, name), read, one))

    return put


def _are_plain(values: list[Any]) -> bool:
    return set(map(type, values)) <= {float, int} and (not values or max(map(abs, values)) < FLOAT_END)


def _messages_putter(name: str) -> Put:
    def put(message: ProtoMessage, path: str, value: Json, violations: list[Violation]) -> None:
        added = getattr(message, name).add
        for position, one in _each(path, value, violations):
            decode(added(), one, violations, position)

    return put


def _each(path: str, value: Json, violations: list[Violation]) -> Iterator[tuple[str, Json]]:
    if isinstance(value, list):
        return ((f"{path}[{position}]", one) for position, one in enumerate(value))
    _violate(violations, path, "must be an array")
    return iter(())


def _map_putter(field: FieldDescriptor) -> Put:
    if value_of(field).message_type is not None:
        raise NotImplementedError(f"{field.full_name}: a map of messages")
    name = field.name
    read_key, read_value = scalar_reader(inner(field).fields_by_name["key"]), scalar_reader(value_of(field))

    def put(message: ProtoMessage, path: str, value: Json, violations: list[Violation]) -> None:
        if not isinstance(value, dict):
            _violate(violations, path, "must be an object")
            return
        entries = getattr(message, name)
        for key, one in value.items():
            _noting(path, violations, partial(_enter, entries, partial(read_key, key), partial(read_value, one)))

    return put


# Any: the containers of protobuf have the types of their fields.
def _append(values: Any, read: Read, value: Json) -> None:  # noqa: ANN401
    values.append(read(value))


def _enter(entries: Any, key: Callable[[], Any], value: Callable[[], Any]) -> None:  # noqa: ANN401
    entries[key()] = value()


def _noting(path: str, violations: list[Violation], act: Callable[[], None]) -> None:
    try:
        act()
    except UnfitError as error:
        _violate(violations, path, str(error))


def _violate(violations: list[Violation], path: str, wrong: str) -> None:
    if len(violations) >= _VIOLATIONS_MAX:
        more = Violation("the request", f"has more than {_VIOLATIONS_MAX} violations: the rest was not looked at")
        raise invalid([more, *violations])
    violations.append(Violation(path or "the request", wrong))
