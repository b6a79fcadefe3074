"""Conversion between protobuf messages and JSON with the canonical mapping (`google.protobuf.json_format`).

Requests may use short enum names, such as `user` for `ROLE_USER`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import orjson
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.api.http.proto_fields import (
    get_message_type,
    is_json_object,
    is_map,
    map_enums_and_objects_by_json_key,
    map_fields_by_json_key,
    map_short_enum_names,
)
from nomemory.server.faults import Fault, Reason, Violation, build_invalid_argument_fault

MAX_VALUES: Final = 100_000
"""Maximum number of values in a request, except those in arrays of numbers. A short value takes about 30 times its
length in memory."""
MAX_ARRAY_NUMBERS: Final = 2_000_000
"""Maximum number of values in arrays of numbers, such as embeddings."""
_MAX_VIOLATIONS: Final = 1_000
_MAX_KEY_CHARS: Final = 40
"""Maximum length of a key in a violation."""
_NUMBER_ARRAY: Final = re.compile(rb"\[[-+.0-9eE, \t\r\n]*\]")
_PARSE_ERRORS: Final = (json_format.ParseError, TypeError, ValueError, OverflowError, AttributeError, RecursionError)
"""Errors that `json_format` raises for invalid documents."""
_EXPECTED: Final[Mapping[int, str]] = {
    FieldDescriptor.TYPE_STRING: "must be a string",
    FieldDescriptor.TYPE_BOOL: "must be true or false",
    FieldDescriptor.TYPE_INT32: "must be an integer of 32 bits",
    FieldDescriptor.TYPE_INT64: "must be an integer of 64 bits",
    FieldDescriptor.TYPE_FLOAT: "must be a number of 32 bits",
}
_EXPECTED_MESSAGE: Final[Mapping[str, str]] = {
    "google.protobuf.Timestamp": "must be a time such as 2026-03-01T08:00:00Z",
    "google.protobuf.Duration": "must be a duration such as 1.5s",
    "google.protobuf.FieldMask": "must be field names, separated by commas",
    "google.protobuf.Struct": "must be an object",
}


def encode_message(message: ProtoMessage) -> bytes:
    """Encode a protobuf message as JSON."""
    return orjson.dumps(json_format.MessageToDict(message))


def parse_json(raw: bytes) -> object:
    """Parse a JSON document.

    Raises:
        Fault: MALFORMED_REQUEST, the text is not valid JSON in UTF-8, or the document has too many values.
    """
    _reject_many_values(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        position = f"line {error.lineno} column {error.colno}"  # the error's text may quote the document
        raise _build_malformed_json_fault(f"is not valid JSON in UTF-8, at {position}") from None


def decode_message(document: object, message: Descriptor, violations: Sequence[Violation] = ()) -> ProtoMessage:
    """Convert a JSON document to a protobuf message.

    The function replaces short enum names in `document` in place.

    Raises:
        Fault: INVALID_FIELD, with at most 1,000 violations, including those in `violations`.
    """
    all_violations = list(violations)
    decoded: ProtoMessage = GetMessageClass(message)()
    try:
        if not isinstance(document, dict):
            raise TypeError
        _expand_enum_names(document, message)
        json_format.ParseDict(document, decoded)
    except _PARSE_ERRORS:
        all_violations += islice(_find_violations(document, message, ""), _MAX_VIOLATIONS + 1)
        all_violations = all_violations or [Violation("the request", f"is not a valid {message.name}")]
    if len(all_violations) > _MAX_VIOLATIONS:
        excess = Violation("the request", f"has more than {_MAX_VIOLATIONS} violations; the others are not listed")
        all_violations = [excess, *all_violations[:_MAX_VIOLATIONS]]
    if all_violations:
        raise build_invalid_argument_fault(all_violations)
    return decoded


def to_printable_key(key: str) -> str:
    """Return a truncated, printable form of a JSON key that a client sent, for use in a violation."""
    return "".join(char if char.isprintable() else "?" for char in key[:_MAX_KEY_CHARS]) or '""'


def _reject_many_values(raw: bytes) -> None:
    if len(raw) <= MAX_VALUES:
        return
    values = sum(map(raw.count, (b",", b"[", b"{")))
    if values <= MAX_VALUES:
        return
    numbers = sum(array[0].count(b",") for array in _NUMBER_ARRAY.finditer(raw))
    if values - numbers > MAX_VALUES:
        raise _build_malformed_json_fault(f"exceeds the limit of {MAX_VALUES} values outside arrays of numbers")
    if numbers > MAX_ARRAY_NUMBERS:
        raise _build_malformed_json_fault(f"exceeds the limit of {MAX_ARRAY_NUMBERS} numbers in arrays")


def _build_malformed_json_fault(problem: str) -> Fault:
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, f"the request {problem}")


def _expand_enum_names(document: dict[str, object], message: Descriptor) -> None:
    for key, field in map_enums_and_objects_by_json_key(message).items():
        value = document.get(key)
        if isinstance(value, str) and field.enum_type is not None:
            document[key] = map_short_enum_names(field.enum_type).get(value, value)
        elif isinstance(value, dict) and field.message_type is not None:
            _expand_enum_names(value, field.message_type)
        elif isinstance(value, list) and field.message_type is not None:
            for item in value:
                if isinstance(item, dict):
                    _expand_enum_names(item, field.message_type)


def _find_violations(document: object, message: Descriptor, path: str) -> Iterator[Violation]:
    """Yield all violations in a document, of which `json_format` reports only the first."""
    if not isinstance(document, dict):
        yield Violation(path or "the request", "must be an object")
        return
    prefix, fields, oneofs = f"{path}." if path else "", map_fields_by_json_key(message), set()
    for key, value in document.items():
        field = fields.get(key)
        if field is None:
            yield Violation(prefix + to_printable_key(key), f"unknown field of {message.name}")
        elif value is not None:
            yield from _find_field_violations(value, field, prefix + field.name)
            oneof = field.containing_oneof
            if oneof is not None and oneof.name in oneofs:
                yield Violation(prefix + field.name, f"only one field of `{oneof.name}` may be set")
            elif oneof is not None:
                oneofs.add(oneof.name)


def _find_field_violations(value: object, field: FieldDescriptor, path: str) -> Iterator[Violation]:
    if is_json_object(field) and not field.is_repeated:
        yield from _find_violations(value, get_message_type(field), path)
    elif is_json_object(field) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_violations(item, get_message_type(field), f"{path}[{index}]")
    elif not _has_json_type(value, field):
        yield Violation(path, _describe_field(field))


def _has_json_type(value: object, field: FieldDescriptor) -> bool:
    if field.containing_type is None:
        raise TypeError(field.full_name)
    try:
        json_format.ParseDict({field.name: value}, GetMessageClass(field.containing_type)())
    except _PARSE_ERRORS:
        return False
    return True


def _describe_field(field: FieldDescriptor) -> str:
    if is_map(field):
        return "must be an object with string values"
    if is_json_object(field):
        return "must be an array of objects"
    value = _describe_value(field)
    return f"must be an array; each value {value}" if field.is_repeated else value


def _describe_value(field: FieldDescriptor) -> str:
    if field.enum_type is not None:
        names = map_short_enum_names(field.enum_type).items()
        return f"must be one of {', '.join(f'{short} ({name})' for short, name in names)}"
    if field.message_type is not None:
        return _EXPECTED_MESSAGE[field.message_type.full_name]
    return _EXPECTED[field.type]
