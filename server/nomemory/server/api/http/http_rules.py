"""The `google.api.http` rules of the API methods."""

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
    """The mapping of an API method to an HTTP method and a path.

    Attributes:
        verb: the HTTP method, such as `GET`.
        template: the path with placeholders, such as `{user_id}` for the value of the field `user_id`.
        path_fields: the names of the request fields in the path.
        has_body: whether the body, and not the query string, contains the other request fields.
    """

    method: MethodDescriptor
    verb: str
    template: str
    path_fields: tuple[str, ...]
    has_body: bool


def get_grpc_path(method: MethodDescriptor) -> str:
    """Return the gRPC path of a method, such as `/nomemory.v1.QueryService/ListMessages`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def find_method_descriptors(grpc_paths: Iterable[str]) -> Iterator[MethodDescriptor]:
    """Yield the descriptors of the methods with the given gRPC paths."""
    for path in grpc_paths:
        service, _, name = path.removeprefix("/").partition("/")
        yield descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]


def get_http_rule(method: MethodDescriptor) -> HttpRule:
    """Return the HTTP rule that the `.proto` file declares for a method.

    Raises:
        NotImplementedError: the `google.api.http` annotation uses an unsupported feature.
    """
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    if verb in {None, "custom"} or rule.body not in {"", "*"} or rule.response_body or rule.additional_bindings:
        raise NotImplementedError(method.full_name)
    template: str = getattr(rule, verb)
    return HttpRule(method, verb.upper(), template, tuple(_VARIABLE.findall(template)), bool(rule.body))
