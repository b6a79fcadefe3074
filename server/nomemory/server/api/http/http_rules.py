"""The `google.api.http` rules of the contract: which verb and path call which method."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from google.api import annotations_pb2
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor

_VARIABLE: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class HttpRule:
    """How HTTP calls a method.

    Attributes:
        method: the method's descriptor.
        verb: `GET`, `POST` and so on.
        template: the path, in which `{user_id}` stands for the value of that field.
        path_fields: the fields in the path.
        has_body: whether the other fields are in the body; otherwise they are in the query.
    """

    method: MethodDescriptor
    verb: str
    template: str
    path_fields: tuple[str, ...]
    has_body: bool


def grpc_path(method: MethodDescriptor) -> str:
    """Return a method's path over gRPC: `/nomemory.v1.QueryService/ListMessages`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def methods_at(grpc_paths: Iterable[str]) -> Iterator[MethodDescriptor]:
    """Return the descriptors of methods by their paths over gRPC."""
    for path in grpc_paths:
        service, _, name = path.removeprefix("/").partition("/")
        yield descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]


def http_rule(method: MethodDescriptor) -> HttpRule:
    """Return the rule of a method.

    Raises:
        NotImplementedError: the annotation uses a feature that no other method uses.
    """
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    if verb in {None, "custom"} or rule.body not in {"", "*"} or rule.response_body or rule.additional_bindings:
        raise NotImplementedError(method.full_name)
    template: str = getattr(rule, verb)
    return HttpRule(method, verb.upper(), template, tuple(_VARIABLE.findall(template)), bool(rule.body))
