"""The contract's methods as HTTP has them: by the `google.api.http` annotations of their descriptors.

What is asked of protobuf's descriptors.

Finds the binding of a request by its verb and path.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from google.api import annotations_pb2, http_pb2
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

from nomemory.server.faults import Fault, Reason


def inner(field: FieldDescriptor) -> Descriptor:
    """Return the type of a field that is a message.

    Raises:
        TypeError: it is none.
    """
    if field.message_type is None:
        raise TypeError(field.full_name)
    return field.message_type


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def value_of(field: FieldDescriptor) -> FieldDescriptor:
    """Return what a map has as its values."""
    return inner(field).fields_by_name["value"]


_VARIABLE: Final = re.compile(r"\{([a-z][a-z0-9_.]*)(?:=\*)?\}")
_LITERAL: Final = re.compile(r"[A-Za-z0-9_.~:-]+")
WHOLE: Final = "*"
"""The `body` of a binding whose body is the whole request."""


class UnsupportedBindingError(Exception):
    """An annotation uses what is not supported: a variable of several segments, or a verb of its own."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a path between slashes: a literal, or a value of the field that names lead to, from outer to inner."""

    literal: str
    field: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binding:
    """One way to call a method.

    Attributes:
        method: the method's descriptor.
        verb: `GET`, `POST` and so on.
        template: the path as the annotation has it.
        segments: the same, taken apart.
        body: the field that the request's body is; `*`: the whole request; empty: there is no body.
    """

    method: MethodDescriptor
    verb: str
    template: str
    segments: tuple[Segment, ...]
    body: str

    @property
    def path(self) -> str:
        """The method's path over gRPC: `/nomemory.v1.QueryService/ListMessages`."""
        return f"/{self.method.containing_service.full_name}/{self.method.name}"

    @property
    def variables(self) -> tuple[tuple[str, ...], ...]:
        """The fields that are in the path."""
        return tuple(segment.field for segment in self.segments if segment.field)


def methods_of(paths: Iterable[str]) -> Iterator[MethodDescriptor]:
    """Return the descriptors of methods by their paths over gRPC."""
    for path in paths:
        service, _, name = path.removeprefix("/").partition("/")
        yield descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]


def bindings_of(method: MethodDescriptor) -> list[Binding]:
    """Return the ways to call a method; a method without an annotation has none.

    Raises:
        UnsupportedBindingError: an annotation cannot be served.
    """
    options = method.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return []
    rule = options.Extensions[annotations_pb2.http]
    return [_binding(method, one) for one in (rule, *rule.additional_bindings)]


def _binding(method: MethodDescriptor, rule: http_pb2.HttpRule) -> Binding:
    verb = rule.WhichOneof("pattern")
    if verb is None or verb == "custom" or rule.response_body:
        raise UnsupportedBindingError(method.full_name)
    template: str = getattr(rule, verb)
    segments = tuple(_segment(text, method) for text in template.removeprefix("/").split("/"))
    return Binding(method, verb.upper(), template, segments, rule.body)


def _segment(text: str, method: MethodDescriptor) -> Segment:
    if variable := _VARIABLE.fullmatch(text):
        names = tuple(variable[1].split("."))
        field_at(method.input_type, names)
        return Segment("", names)
    if _LITERAL.fullmatch(text):
        return Segment(text)
    raise UnsupportedBindingError(f"{method.full_name}: {text}")


def field_at(of: Descriptor, names: tuple[str, ...]) -> FieldDescriptor:
    """Return the field that names lead to, from outer to inner.

    Raises:
        KeyError: there is none.
    """
    for name in names[:-1]:
        of = inner(of.fields_by_name[name])
    return of.fields_by_name[names[-1]]


@dataclass(frozen=True, slots=True)
class Match:
    """A binding, and the values of the fields that are in its path."""

    binding: Binding
    values: tuple[str, ...]


class Routes:
    """The bindings by their paths.

    A path is taken apart before its parts are decoded: a slash within an id is `%2F`, and leads nowhere else.
    """

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._by_length: dict[int, list[Binding]] = defaultdict(list)
        for binding in bindings:
            self._by_length[len(binding.segments)].append(binding)
        for same in self._by_length.values():
            same.sort(key=lambda binding: len(binding.variables))  # a literal goes before a variable

    def match(self, verb: str, raw_path: bytes) -> Match | None:
        """Return what a request is for; None: nothing has this verb at this path.

        Raises:
            Fault: MALFORMED_REQUEST, a part of the path is not UTF-8.
        """
        return next((match for match in self._at(raw_path) if match.binding.verb == verb), None)

    def verbs(self, raw_path: bytes) -> list[str]:
        """Return the verbs that there are at a path."""
        return sorted({match.binding.verb for match in self._at(raw_path)})

    def _at(self, raw_path: bytes) -> Iterator[Match]:
        raw = raw_path.removeprefix(b"/").split(b"/")
        for binding in self._by_length.get(len(raw), ()):
            if (values := _values(binding, raw)) is not None:
                yield Match(binding, values)


def _values(binding: Binding, raw: list[bytes]) -> tuple[str, ...] | None:
    for segment, part in zip(binding.segments, raw, strict=True):
        if segment.literal and segment.literal.encode() != part and segment.literal.encode() != unquote_to_bytes(part):
            return None
    return tuple(_text(part) for segment, part in zip(binding.segments, raw, strict=True) if segment.field)


def _text(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the path is not UTF-8") from None
