"""Services of the contract, as the pipeline serves them."""

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
"""A reply as a message, or already encoded."""
# Any: each handler takes the request type of its own RPC, which the descriptor names at run time.
UnaryHandler = Callable[[Any, CallContext], Awaitable[Reply]]
ClientStreamHandler = Callable[[AsyncIterator[Any], CallContext], Awaitable[Reply]]
ServerStreamHandler = Callable[[Any, CallContext], AsyncIterator[Reply]]
Handler = UnaryHandler | ClientStreamHandler | ServerStreamHandler


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """A method as its service declares it.

    Attributes:
        required: what its caller needs.
        handler: answers it, of the kind that the contract declares.
        is_bulk: whether a call may take long: if its client sets no deadline, it gets the timeout of imports.
        min_deadline_s: the least deadline of a call whose client sets none.
    """

    required: RequiredScopes
    handler: Handler
    is_bulk: bool = False
    min_deadline_s: float = 0.0


class Service(Protocol):
    """A service of the contract."""

    @property
    def full_name(self) -> str:
        """The name in the contract, `nomemory.v1.QueryService`."""

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names. The server does not start if one of the contract is missing."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the contract and what serves it.

    Attributes:
        path: `/nomemory.v1.QueryService/ListMessages`.
        name: `ListMessages`, as logs and metrics have it.
        descriptor: from the contract.
        reply_type: of its replies.
        served: the handler and what it needs.
    """

    path: str
    name: str
    descriptor: MethodDescriptor
    reply_type: type[ProtoMessage]
    served: ServedMethod


def methods_of(service: Service) -> list[Method]:
    """Return the methods of a service, all that the contract has.

    Raises:
        KeyError: the service lacks one.
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
