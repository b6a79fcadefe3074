"""The request of a method, out of the path, the query and the body of an HTTP request.

Each field comes from one place. One that comes from two is refused unless both say the same, so that no reader of a
request, in front of the server or in it, takes another value than the server does.

A query as the object that JSON would have in its place: `filter.role=ROLE_USER&filter.metadata[topic]=food`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Final, cast
from urllib.parse import parse_qsl

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason, Violation, invalid
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import WHOLE, Binding, Match, field_at, inner, is_map, value_of
from nomemory.server.web.decoding import decode
from nomemory.server.web.json_text import Json, parse
from nomemory.server.web.scalars import text_reader
from nomemory.server.web.well_known import WELL_KNOWN_READERS

_KEY: Final = re.compile(r"(?P<path>[A-Za-z][A-Za-z0-9_.]{0,200})(?:\[(?P<entry>[^\[\]]{0,1024})\])?")
_SHOWN_CHARS: Final = 40


def pairs_of(query: bytes) -> list[tuple[str, str]]:
    """Return the names and values of a query.

    Raises:
        Fault: MALFORMED_REQUEST, it is not UTF-8.
    """
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the query is not UTF-8") from None


def as_object(of: Descriptor, query: bytes, violations: list[Violation]) -> dict[str, Json]:
    """Return the object, by the names that the fields have in the contract. Whatever is wrong is collected.

    Raises:
        Fault: as `pairs_of`.
    """
    given: dict[str, Json] = {}
    for key, text in pairs_of(query):
        wrong = _put(of, given, key, text)
        if wrong:
            shown = "".join(character if character.isprintable() else "?" for character in key[:_SHOWN_CHARS])
            violations.append(Violation(shown, wrong))
    return given


def _put(of: Descriptor, given: dict[str, Json], key: str, text: str) -> str:
    """Put a value where its key says. Return what is wrong; empty: nothing."""
    form = _KEY.fullmatch(key)
    fields = list(_fields(of, form["path"].split("."))) if form else []
    if form is None or None in fields or not fields:
        return f"is no field of {of.name}"
    *outer, leaf = [field for field in fields if field is not None]
    for field in outer:
        inner = given.setdefault(field.name, {})
        if not isinstance(inner, dict):
            return "is given twice"
        given = inner
    return _put_entry(given, leaf, form["entry"], text) if is_map(leaf) else _put_leaf(given, leaf, form["entry"], text)


def _fields(of: Descriptor | None, names: list[str]) -> Iterator[FieldDescriptor | None]:
    """Return the fields that names lead to; None at the end: it leads nowhere."""
    for position, name in enumerate(names):
        field = None if of is None else of.fields_by_name.get(name) or of.fields_by_camelcase_name.get(name)
        yield field
        last = position == len(names) - 1
        if field is None or (not last and (field.is_repeated or field.message_type is None)):
            yield None
            return
        of = None if _is_leaf(field) else field.message_type


def _is_leaf(field: FieldDescriptor) -> bool:
    return field.message_type is None or field.message_type.full_name in WELL_KNOWN_READERS


def _put_entry(given: dict[str, Json], field: FieldDescriptor, entry: str | None, text: str) -> str:
    if entry is None:
        return "needs a key in brackets"
    entries = given.setdefault(field.name, {})
    if not isinstance(entries, dict) or entry in entries:
        return "is given twice"
    entries[entry] = text_reader(value_of(field))(text)
    return ""


def _put_leaf(given: dict[str, Json], field: FieldDescriptor, entry: str | None, text: str) -> str:
    if entry is not None:
        return "is no map"
    if not _is_leaf(field):
        return "is a message: name its fields"
    value = text if field.message_type is not None else text_reader(field)(text)
    if field.is_repeated:
        several = given.setdefault(field.name, [])
        if isinstance(several, list):
            several.append(value)
        return ""
    if field.name in given:
        return "is given twice"
    given[field.name] = value
    return ""


_AT_ONCE_BYTES: Final = 1 << 18
"""Up to here JSON is read within a few milliseconds, for which other requests can wait."""


async def in_turn(raw: bytes, read: Callable[[], bytes]) -> bytes:
    """Return what reading a text gives. A long one is read in a thread."""
    return await asyncio.to_thread(read) if len(raw) > _AT_ONCE_BYTES else read()


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
    body = _parsed(raw, settings) if raw else None
    violations: list[Violation] = []
    of = match.binding.method.input_type
    message = GetMessageClass(of)()
    given = _given(match.binding, query, body, violations)
    if isinstance(given, dict):
        _add_path(of, match, given, violations)
    decode(message, given, violations)
    if violations:
        raise invalid(violations)
    return message.SerializeToString()


def message_of_json(of: Descriptor, raw: bytes, settings: Settings) -> bytes:
    """Return a request in the binary format that JSON stands for alone.

    Raises:
        Fault: INVALID_FIELD, with every violation; MALFORMED_REQUEST, it is not JSON.
    """
    violations: list[Violation] = []
    message: ProtoMessage = GetMessageClass(of)()
    decode(message, _parsed(raw, settings), violations)
    if violations:
        raise invalid(violations)
    return message.SerializeToString()


def _parsed(raw: bytes, settings: Settings) -> Json:
    return parse(raw, settings.http.json_values_max, settings.http.json_numbers_max)


def _given(binding: Binding, query: bytes, body: Json | None, violations: list[Violation]) -> Json:
    if binding.body == WHOLE:
        violations.extend(Violation(key[:_SHOWN_CHARS], "must be in the body") for key, _ in pairs_of(query))
        return {} if body is None else body
    given = as_object(binding.method.input_type, query, violations) if query else {}
    if binding.body and body is not None:
        if binding.body in given:
            violations.append(Violation(binding.body, "is in the body already"))
        given[binding.body] = body
    return given


def _add_path(of: Descriptor, match: Match, given: dict[str, Json], violations: list[Violation]) -> None:
    for names, text in zip(match.binding.variables, match.values, strict=True):
        owner, path = _owner(of, given, names[:-1]), ".".join(names)
        field = field_at(of, names)
        value = text_reader(field)(text)
        others = [owner.pop(name) for name in {field.name, field.json_name} & owner.keys()]
        violations.extend(Violation(path, "differs from the path") for other in others if other != value)
        owner[field.name] = value


def _owner(of: Descriptor, given: dict[str, Json], names: tuple[str, ...]) -> dict[str, Json]:
    """Return the object that has the field which names lead to; what is missing on the way is made."""
    for name in names:
        field = of.fields_by_name[name]
        below = given.get(field.json_name, given.get(name))
        if not isinstance(below, dict):
            below = given[name] = {}
        given, of = cast("dict[str, Json]", below), inner(field)
    return given
