"""The QueryService stub of a server elsewhere, for recalls."""

from __future__ import annotations

from collections.abc import Sequence

from grpc.aio import AioRpcError

from nomemory.recall.tools.query_stub import QueryStub, Rpc
from nomemory.recall.tools.service_error import service_error
from nomemory.server.api.services.recall_stubs import Reply, Request
from nomemory.server.faults import Fault, Reason
from nomemory.spans.span import outgoing_metadata

_OVERLOADED = Reason.Name(Reason.ERROR_REASON_OVERLOADED)


_RETRY_AFTER_S = 1.0


class RemoteQueryStub:
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


def _passing_on(rpc: Rpc[Request, Reply]) -> Rpc[Request, Reply]:
    async def call(request: Request, /, *, timeout: float, metadata: Sequence[tuple[str, str]] = ()) -> Reply:  # noqa: ASYNC109 - the signature of a stub's method
        try:
            return await rpc(request, timeout=timeout, metadata=(*metadata, *outgoing_metadata()))
        except AioRpcError as error:
            if service_error(error).reason != _OVERLOADED:
                raise
            message = "the query service has no room"
            raise Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=_RETRY_AFTER_S) from error

    return call
