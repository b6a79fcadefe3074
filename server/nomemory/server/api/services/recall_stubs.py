"""The stubs of a QueryService that recalls read through: of the service in the same process, or of one elsewhere.

Both return the contract's messages and raise `AioRpcError` for a fault, as a `grpc.aio` stub does, but for OVERLOADED:
there is no room, which is no fault of a search. That passes through to whoever asked for the recall.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message as ProtoMessage
from grpc.aio import AioRpcError, Metadata

from nomemory.recall.tools.query_stub import QueryStub, Rpc
from nomemory.recall.tools.service_error import service_error
from nomemory.server.api.call import CallContext
from nomemory.server.api.grpc.status import grpc_status
from nomemory.server.api.services.query_service import QueryService
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import fresh_ulid
from nomemory.spans.span import outgoing_metadata
from nomemory.v1 import query_service_pb2 as pb

_Request = TypeVar("_Request", bound=ProtoMessage)
_Reply = TypeVar("_Reply", bound=ProtoMessage)
_Method = Callable[[_Request, CallContext], Awaitable[bytes]]


class InProcessQuery:
    """Has the methods of a `QueryServiceStub` that recalls need, without a socket.

    An unexpected error passes through. A call costs the decoding of its reply; over a loopback channel it would cost
    about a millisecond.

    Args:
        service: answers the calls.
    """

    def __init__(self, service: QueryService) -> None:
        self.ListMessages = _unary(service.list_messages, pb.ListMessagesResponse)
        self.LexicalSearch = _unary(service.lexical_search, pb.LexicalSearchResponse)
        self.SemanticSearch = _unary(service.semantic_search, pb.SemanticSearchResponse)
        self.HybridSearch = _unary(service.hybrid_search, pb.HybridSearchResponse)
        self.GetNeighbors = _unary(service.get_neighbors, pb.GetNeighborsResponse)
        self.BatchGetMessages = _unary(service.batch_get_messages, pb.BatchGetMessagesResponse)


def _unary(method: _Method[_Request], reply_type: type[_Reply]) -> Callable[..., Awaitable[_Reply]]:
    async def call(request: _Request, *, timeout: float, metadata: Sequence[tuple[str, str]] = ()) -> _Reply:  # noqa: ASYNC109, ARG001 - the signature of a stub's method
        own = CallContext(fresh_ulid(), asyncio.get_running_loop().time() + timeout)
        await asyncio.sleep(0)  # a short read does not suspend, and a recall makes many in a row
        try:
            async with asyncio.timeout_at(own.deadline):
                return reply_type.FromString(await method(request, own))
        except Fault as fault:
            if fault.reason == Reason.ERROR_REASON_OVERLOADED:
                raise
            raise _as_rpc_error(fault, own.request_id) from fault
        except TimeoutError as error:
            late = Fault(Reason.ERROR_REASON_DEADLINE_EXCEEDED, "the call took longer than its deadline")
            raise _as_rpc_error(late, own.request_id) from error

    return call


def _as_rpc_error(fault: Fault, request_id: str) -> AioRpcError:
    status = grpc_status(fault, request_id)
    trailing = Metadata(*status.trailing_metadata)
    return AioRpcError(status.code, Metadata(), trailing, status.details)


_OVERLOADED = Reason.Name(Reason.ERROR_REASON_OVERLOADED)
_RETRY_AFTER_S = 1.0


class RemoteQuery:
    """Has the methods of a `QueryServiceStub` that recalls need. They raise a `Fault` where the service has no room.

    Args:
        stub: makes the calls.
    """

    def __init__(self, stub: QueryStub) -> None:
        self.ListMessages = _passing_on(stub.ListMessages)
        self.LexicalSearch = _passing_on(stub.LexicalSearch)
        self.SemanticSearch = _passing_on(stub.SemanticSearch)
        self.HybridSearch = _passing_on(stub.HybridSearch)
        self.GetNeighbors = _passing_on(stub.GetNeighbors)
        self.BatchGetMessages = _passing_on(stub.BatchGetMessages)


def _passing_on(rpc: Rpc[_Request, _Reply]) -> Rpc[_Request, _Reply]:
    async def call(request: _Request, /, *, timeout: float, metadata: Sequence[tuple[str, str]] = ()) -> _Reply:  # noqa: ASYNC109 - the signature of a stub's method
        try:
            return await rpc(request, timeout=timeout, metadata=(*metadata, *outgoing_metadata()))
        except AioRpcError as error:
            if service_error(error).reason != _OVERLOADED:
                raise
            message = "the query service has no room"
            raise Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=_RETRY_AFTER_S) from error

    return call
