"""Descriptions of the services and methods that the pipeline executes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import RequiredScopes

Reply = bytes | ProtoMessage
"""A response, as a message or encoded."""
# Any: the request type of a handler depends on its RPC.
UnaryHandler = Callable[[Any, CallContext], Awaitable[Reply]]
ClientStreamHandler = Callable[[AsyncIterator[Any], CallContext], Awaitable[Reply]]
ServerStreamHandler = Callable[[Any, CallContext], AsyncIterator[Reply]]
Handler = UnaryHandler | ClientStreamHandler | ServerStreamHandler


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """An API method with its handler and its requirements.

    Attributes:
        required: the scopes that the caller needs.
        handler: the handler, unary or streaming as declared in the `.proto` file.
        is_bulk: whether calls without a client timeout get the long timeout of imports and exports.
        min_deadline_s: the minimum timeout, in seconds, of calls without a client timeout.
    """

    required: RequiredScopes
    handler: Handler
    is_bulk: bool = False
    min_deadline_s: float = 0.0


class Service(Protocol):
    """A gRPC service."""

    @property
    def full_name(self) -> str:
        """The full name of the service, such as `nomemory.v1.QueryService`."""

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods of the service by their short names, such as `ListMessages`."""


@dataclass(frozen=True, slots=True)
class Method:
    """An API method with its protobuf descriptor.

    Attributes:
        path: the gRPC path, such as `/nomemory.v1.QueryService/ListMessages`.
        name: the short name, such as `ListMessages`; a label of logs and metrics.
        served: the handler, with the required scopes and the minimum timeout.
    """

    path: str
    name: str
    descriptor: MethodDescriptor
    reply_type: type[ProtoMessage]
    served: ServedMethod


def list_methods(service: Service) -> list[Method]:
    """Return all methods that the descriptor of a service declares.

    Raises:
        KeyError: the service does not implement a declared method.
    """
    served = service.methods()
    descriptor = descriptor_pool.Default().FindServiceByName(service.full_name)
    return [
        Method(
            f"/{service.full_name}/{method.name}",
            method.name,
            method,
            GetMessageClass(method.output_type),
            served[method.name],
        )
        for method in descriptor.methods
    ]
