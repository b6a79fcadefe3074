"""The contract's methods as HTTP has them: by the `google.api.http` annotations of their descriptors.

A request of a method comes out of the path, the query and the body of an HTTP request. Each field comes from one place.
One that comes from two is refused unless both say the same, so that no reader of a request, in front of the server or
in it, takes another value than the server does.

A query is read as the object that JSON would have in its place: `filter.role=user&filter.metadata[topic]=food`.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from google.api import annotations_pb2
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason, Violation, invalid
from nomemory.server.settings import Settings
from nomemory.server.web.transcoding import decode, parse, shown
from nomemory.server.web.values import Json, is_map, json_type

_KEY: Final = re.compile(r"(?P<path>[A-Za-z][A-Za-z0-9_.]{0,200})(?:\[(?P<entry>[^\[\]]{0,1024})\])?")
_AT_ONCE_BYTES: Final = 1 << 18
"""Up to here JSON is read within a few milliseconds, for which other requests can wait."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The way to call a method.

    Attributes:
        method: the method's descriptor.
        verb: `GET`, `POST` and so on.
        template: the path, in which `{user_id}` stands for a value of that field.
        literals: its parts that are none, by their places.
        variables: the fields that are in the path, by their places.
        has_body: whether the request is the body, but for what stands in the path. Else it is the query.
    """

    method: MethodDescriptor
    verb: str
    template: str
    literals: Mapping[int, bytes]
    variables: Mapping[int, str]
    has_body: bool

    def values(self, parts: list[bytes]) -> dict[str, bytes] | None:
        """Return the values of the fields that are in a path, which has as many parts; None: it is another path."""
        if any(parts[place] != literal for place, literal in self.literals.items()):
            return None
        return {name: parts[place] for place, name in self.variables.items()}


def path_of(method: MethodDescriptor) -> str:
    """Return a method's path over gRPC: `/nomemory.v1.QueryService/ListMessages`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def methods_of(paths: Iterable[str]) -> Iterator[MethodDescriptor]:
    """Return the descriptors of methods by these paths."""
    for path in paths:
        service, _, name = path.removeprefix("/").partition("/")
        yield descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]


def binding_of(method: MethodDescriptor) -> Binding:
    """Return the way to call a method.

    Raises:
        NotImplementedError: its annotation has what no other has.
    """
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    if verb in {None, "custom"} or rule.body not in {"", "*"} or rule.response_body or rule.additional_bindings:
        raise NotImplementedError(method.full_name)
    template: str = getattr(rule, verb)
    parts = list(enumerate(template.split("/")))
    literals = {place: part.encode() for place, part in parts if not part.startswith("{")}
    variables = {place: part[1:-1] for place, part in parts if part.startswith("{")}
    return Binding(method, verb.upper(), template, literals, variables, bool(rule.body))


@dataclass(frozen=True, slots=True)
class Match:
    """A binding, and the values of the fields that are in the path."""

    binding: Binding
    values: Mapping[str, str]


class Routes:
    """The bindings by their paths.

    A path is taken apart before its parts are decoded: a slash within an id is `%2F`, and leads nowhere else.
    """

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._by_length: dict[int, list[Binding]] = defaultdict(list)
        for binding in sorted(bindings, key=lambda one: len(one.variables)):  # a literal goes before a variable
            self._by_length[binding.template.count("/")].append(binding)

    def match(self, verb: str, raw_path: bytes) -> Match | None:
        """Return what a request is for; None: nothing has this verb at this path.

        Raises:
            Fault: MALFORMED_REQUEST, a part of the path is not UTF-8.
        """
        for binding, values in self._at(raw_path):
            if binding.verb == verb:
                return Match(binding, {name: _text(part) for name, part in values.items()})
        return None

    def verbs(self, raw_path: bytes) -> list[str]:
        """Return the verbs that there are at a path."""
        return sorted({binding.verb for binding, _ in self._at(raw_path)})

    def _at(self, raw_path: bytes) -> Iterator[tuple[Binding, dict[str, bytes]]]:
        parts = [unquote_to_bytes(part) for part in raw_path.split(b"/")]
        for binding in self._by_length.get(len(parts) - 1, ()):
            if (values := binding.values(parts)) is not None:
                yield binding, values


def _text(part: bytes) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the path is not UTF-8") from None


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
    return _put_value(given, field, form["entry"], text)


def _field(of: Descriptor | None, name: str) -> FieldDescriptor | None:
    return None if of is None else of.fields_by_name.get(name) or of.fields_by_camelcase_name.get(name)


def _put_value(given: dict[str, Any], field: FieldDescriptor, entry: str | None, text: str) -> str:
    name, value = (
        field.name,
        {"true": True, "false": False}.get(text, text) if field.type == FieldDescriptor.TYPE_BOOL else text,
    )
    if is_map(field):
        if entry is None:
            return "needs a key in brackets"
        given, name = given.setdefault(name, {}), entry
    elif entry is not None:
        return "is no map"
    elif json_type(field) is None:
        return "is a message: name its fields"
    elif field.is_repeated:
        given.setdefault(name, []).append(value)
        return ""
    if name in given:
        return "is given twice"
    given[name] = value
    return ""
