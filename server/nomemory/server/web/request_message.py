"""The request of a method, out of the path, the query and the body of an HTTP request.

Each field comes from one place. One that comes from two is refused unless both say the same, so that no reader of a
request, in front of the server or in it, takes another value than the server does.

A query is read as the object that JSON would have in its place: `filter.role=ROLE_USER&filter.metadata[topic]=food`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason, Violation, invalid
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import Match
from nomemory.server.web.decoding import decode, parse, shown
from nomemory.server.web.values import Json, is_map, json_type

_KEY: Final = re.compile(r"(?P<path>[A-Za-z][A-Za-z0-9_.]{0,200})(?:\[(?P<entry>[^\[\]]{0,1024})\])?")
_AT_ONCE_BYTES: Final = 1 << 18
"""Up to here JSON is read within a few milliseconds, for which other requests can wait."""


async def in_turn(raw: bytes, read: Callable[[bytes], bytes]) -> bytes:
    """Return what reading a text gives. A long one is read in a thread."""
    return await asyncio.to_thread(read, raw) if len(raw) > _AT_ONCE_BYTES else read(raw)


def request_message(match: Match, query: bytes, raw: bytes, settings: Settings) -> bytes:
    """Return a method's request in the binary format.

    Args:
        match: the binding, and the values in the path.
        query: the query, as it came.
        raw: the JSON of the body; empty: there is none.
        settings: how many values it may have.

    Raises:
        Fault: INVALID_FIELD, with every violation; MALFORMED_REQUEST, the body is not JSON, the query not UTF-8.
    """
    of, violations = match.binding.method.input_type, list[Violation]()
    given = _parsed(raw, settings) if raw else {}
    for key, text in _pairs_of(query):
        wrong = "must be in the body" if match.binding.has_body else _put(of, given, key, text)
        if wrong:
            violations.append(Violation(shown(key), wrong))
    if isinstance(given, dict):
        _add_path(of, match, given, violations)
    return _encoded(of, given, violations)


def message_of_json(of: Descriptor, raw: bytes, settings: Settings) -> bytes:
    """Return a request in the binary format that JSON stands for alone.

    Raises:
        Fault: INVALID_FIELD, with every violation; MALFORMED_REQUEST, it is not JSON.
    """
    return _encoded(of, _parsed(raw, settings), [])


def _parsed(raw: bytes, settings: Settings) -> Any:  # noqa: ANN401 - any JSON
    return parse(raw, settings.http.json_values_max, settings.http.json_numbers_max)


def _encoded(of: Descriptor, given: Json, violations: list[Violation]) -> bytes:
    message: ProtoMessage = GetMessageClass(of)()
    decode(message, given, violations)
    if violations:
        raise invalid(violations)
    return message.SerializeToString()


def _add_path(of: Descriptor, match: Match, given: dict[str, Json], violations: list[Violation]) -> None:
    for name, text in match.values.items():
        others = [given.pop(other) for other in {name, of.fields_by_name[name].json_name} & given.keys()]
        violations.extend(Violation(name, "differs from the path") for other in others if other != text)
        given[name] = text


def _pairs_of(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the query is not UTF-8") from None


def _put(of: Descriptor, given: dict[str, Any], key: str, text: str) -> str:
    """Put a value of a query where its key says. Return what is wrong; empty: nothing."""
    form = _KEY.fullmatch(key)
    *outer, last = form["path"].split(".") if form else [""]
    below: Descriptor | None = of
    for name in outer:
        field = _field(below, name)
        if field is None or field.is_repeated or json_type(field) is not None:
            return f"is no field of {of.name}"
        given, below = given.setdefault(field.name, {}), field.message_type
    field = _field(below, last)
    if form is None or field is None:
        return f"is no field of {of.name}"
    return (
        _put_entry(given, field, form["entry"], text) if is_map(field) else _put_leaf(given, field, form["entry"], text)
    )


def _field(of: Descriptor | None, name: str) -> FieldDescriptor | None:
    return None if of is None else of.fields_by_name.get(name) or of.fields_by_camelcase_name.get(name)


def _put_entry(given: dict[str, Any], field: FieldDescriptor, entry: str | None, text: str) -> str:
    if entry is None:
        return "needs a key in brackets"
    entries = given.setdefault(field.name, {})
    if entry in entries:
        return "is given twice"
    entries[entry] = text
    return ""


def _put_leaf(given: dict[str, Any], field: FieldDescriptor, entry: str | None, text: str) -> str:
    if entry is not None:
        return "is no map"
    if json_type(field) is None:
        return "is a message: name its fields"
    value = {"true": True, "false": False}.get(text, text) if field.type == FieldDescriptor.TYPE_BOOL else text
    if field.is_repeated:
        given.setdefault(field.name, []).append(value)
    elif field.name in given:
        return "is given twice"
    else:
        given[field.name] = value
    return ""
