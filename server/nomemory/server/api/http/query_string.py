"""Conversion of URL query strings to JSON documents.

`filter.role=user&filter.metadata[topic]=food` becomes `{"filter": {"role": "user", "metadata": {"topic": "food"}}}`. A
repeated parameter becomes an array.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from nomemory.server.api.http.json_mapping import to_printable_key
from nomemory.server.api.http.proto_fields import get_message_type, is_json_object, is_map, map_fields_by_json_key
from nomemory.server.faults import Fault, Reason, Violation

_NAME: Final = re.compile(r"(?P<path>[A-Za-z][A-Za-z0-9_.]{0,200})(?:\[(?P<map_key>[^\[\]]{0,1024})\])?")
_BOOLEANS: Final = {"true": True, "false": False}


class _UnknownParameterError(Exception):
    """The name of a query parameter is not the name of a request field."""


def parse_query_parameters(query: bytes) -> list[tuple[str, str]]:
    """Parse a query string into pairs of name and value.

    Raises:
        Fault: MALFORMED_REQUEST, the query string is not UTF-8.
    """
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the query string is not UTF-8") from None


def build_query_document(
    parameters: Sequence[tuple[str, str]], message: Descriptor
) -> tuple[dict[str, Any], list[Violation]]:
    """Convert query parameters to a JSON document and violations.

    The violations report parameters with unknown names. The function does not validate values.
    """
    document: dict[str, Any] = {}
    violations = []
    for name, text in parameters:
        try:
            _set_field(document, message, name, text)
        except _UnknownParameterError as error:
            violations.append(Violation(to_printable_key(name), str(error)))
    return document, violations


def _set_field(document: dict[str, Any], message: Descriptor, name: str, text: str) -> None:
    parsed = _NAME.fullmatch(name)
    if parsed is None:
        raise _UnknownParameterError(f"unknown field of {message.name}")
    *outer, last = parsed["path"].split(".")
    target, inner = document, message
    for key in outer:
        field = map_fields_by_json_key(inner).get(key)
        if field is None or field.is_repeated or not is_json_object(field):
            raise _UnknownParameterError(f"unknown field of {message.name}")
        target, inner = target.setdefault(field.name, {}), get_message_type(field)
    field = map_fields_by_json_key(inner).get(last)
    if field is None:
        raise _UnknownParameterError(f"unknown field of {message.name}")
    _put_value(target, field, parsed["map_key"], text)


def _put_value(target: dict[str, Any], field: FieldDescriptor, map_key: str | None, text: str) -> None:
    key, value = field.name, _BOOLEANS.get(text, text) if field.type == FieldDescriptor.TYPE_BOOL else text
    if is_map(field):
        if map_key is None:
            raise _UnknownParameterError(f"must have a key in brackets, such as {field.name}[key]")
        target, key = target.setdefault(field.name, {}), map_key
    elif map_key is not None:
        raise _UnknownParameterError("must not have a key in brackets: the field is not a map")
    elif is_json_object(field):
        raise _UnknownParameterError("is a message: set its fields with separate parameters")
    elif field.is_repeated:
        target.setdefault(key, []).append(value)
        return
    if key in target:
        raise _UnknownParameterError("must not be repeated")
    target[key] = value
