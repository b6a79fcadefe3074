"""The request of a method, out of the path, the query and the body of an HTTP request.

Each field comes from one place. One that comes from two is refused unless both say the same, so that no reader of a
request, in front of the server or in it, takes another value than the server does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Violation, invalid
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import WHOLE, Binding, field_at
from nomemory.server.web.decoding import decode
from nomemory.server.web.descriptors import inner
from nomemory.server.web.json_text import Json, parse
from nomemory.server.web.query_string import as_object, pairs_of
from nomemory.server.web.routes import Match
from nomemory.server.web.scalars import text_reader

_SHOWN_CHARS: Final = 40
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
