"""The contract's methods as HTTP has them: by the `google.api.http` annotations of their descriptors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from google.api import annotations_pb2, http_pb2
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

from nomemory.server.web.descriptors import inner

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
