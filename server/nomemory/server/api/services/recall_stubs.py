"""An in-process QueryService stub for recalls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message as ProtoMessage
from grpc.aio import AioRpcError, Metadata

from nomemory.server.api.call import CallContext
from nomemory.server.api.grpc.status import build_grpc_status
from nomemory.server.api.services.query_service import QueryService
from nomemory.server.faults import Fault, Reason
from nomemory.server.message_ids import generate_ulid
from nomemory.v1 import query_service_pb2 as pb

Request = TypeVar("Request", bound=ProtoMessage)
Reply = TypeVar("Reply", bound=ProtoMessage)
_Method = Callable[[Request, CallContext], Awaitable[bytes]]


class InProcessQueryStub:
    """A QueryService stub for recalls that calls the service in this process, without a network connection.

    An in-process call is about 1 ms faster than a call over a loopback channel. A call to the stub raises `AioRpcError`
    if the service raises a `Fault` other than OVERLOADED.
    """

    def __init__(self, service: QueryService) -> None:
        self.ListMessages = _make_unary_call(service.list_messages, pb.ListMessagesResponse)
        self.LexicalSearch = _make_unary_call(service.lexical_search, pb.LexicalSearchResponse)
        self.SemanticSearch = _make_unary_call(service.semantic_search, pb.SemanticSearchResponse)
        self.HybridSearch = _make_unary_call(service.hybrid_search, pb.HybridSearchResponse)
        self.GetNeighbors = _make_unary_call(service.get_neighbors, pb.GetNeighborsResponse)
        self.BatchGetMessages = _make_unary_call(service.batch_get_messages, pb.BatchGetMessagesResponse)


def _make_unary_call(method: _Method[Request], reply_type: type[Reply]) -> Callable[..., Awaitable[Reply]]:
    async def call(request: Request, *, timeout: float, metadata: Sequence[tuple[str, str]] = ()) -> Reply:  # noqa: ASYNC109, ARG001 - the signature of a stub's method
        context = CallContext(generate_ulid(), asyncio.get_running_loop().time() + timeout)
        await asyncio.sleep(0)  # short reads do not yield to the event loop, and a recall makes many reads in a row
        try:
            async with asyncio.timeout_at(context.deadline):
                return reply_type.FromString(await method(request, context))
        except Fault as fault:
            if fault.reason == Reason.ERROR_REASON_OVERLOADED:
                raise
            raise _to_rpc_error(fault, context.request_id) from fault
        except TimeoutError as error:
            timeout_fault = Fault(Reason.ERROR_REASON_DEADLINE_EXCEEDED, "the call took longer than its deadline")
            raise _to_rpc_error(timeout_fault, context.request_id) from error

    return call


def _to_rpc_error(fault: Fault, request_id: str) -> AioRpcError:
    status = build_grpc_status(fault, request_id)
    trailing = Metadata(*status.trailing_metadata)
    return AioRpcError(status.code, Metadata(), trailing, status.details)
