"""The stub of a QueryService elsewhere. That it has no room is passed on to whoever asked for the recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from grpc.aio import AioRpcError

from nomemory.recall.tools.query_stub import QueryStub, Rpc
from nomemory.recall.tools.service_error import service_error
from nomemory.server.faults import Fault, Reason
from nomemory.spans.span import current
from nomemory.spans.w3c import as_metadata

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")

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
            return await rpc(request, timeout=timeout, metadata=(*metadata, *as_metadata(current())))
        except AioRpcError as error:
            if service_error(error).reason != _OVERLOADED:
                raise
            message = "the query service has no room"
            raise Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=_RETRY_AFTER_S) from error

    return call
