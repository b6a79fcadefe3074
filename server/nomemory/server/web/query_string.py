"""A query as the object that JSON would have in its place: `filter.role=ROLE_USER&filter.metadata[topic]=food`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.web.descriptors import is_map, value_of
from nomemory.server.web.json_text import Json
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
