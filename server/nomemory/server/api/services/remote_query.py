"""A QueryService stub for recalls that read from another server."""

from __future__ import annotations

from collections.abc import Sequence

from grpc.aio import AioRpcError

from nomemory.recall.tools.query_stub import QueryStub, StubMethod
from nomemory.recall.tools.service_error import decode_service_error
from nomemory.server.api.services.recall_stubs import Reply, Request
from nomemory.server.faults import Fault, Reason
from nomemory.spans.span import build_trace_metadata

_OVERLOADED = Reason.Name(Reason.ERROR_REASON_OVERLOADED)


_RETRY_AFTER_S = 1.0


class RemoteQueryStub:
    """A QueryService stub for recalls that calls another server.

    A call to the stub raises a `Fault` if the other server is overloaded.
    """

    def __init__(self, stub: QueryStub) -> None:
        self.ListMessages = _convert_overload_errors(stub.ListMessages)
        self.LexicalSearch = _convert_overload_errors(stub.LexicalSearch)
        self.SemanticSearch = _convert_overload_errors(stub.SemanticSearch)
        self.HybridSearch = _convert_overload_errors(stub.HybridSearch)
        self.GetNeighbors = _convert_overload_errors(stub.GetNeighbors)
        self.BatchGetMessages = _convert_overload_errors(stub.BatchGetMessages)


def _convert_overload_errors(rpc: StubMethod[Request, Reply]) -> StubMethod[Request, Reply]:
    async def call(request: Request, /, *, timeout: float, metadata: Sequence[tuple[str, str]] = ()) -> Reply:  # noqa: ASYNC109 - the signature of a stub's method
        try:
            return await rpc(request, timeout=timeout, metadata=(*metadata, *build_trace_metadata()))
        except AioRpcError as error:
            if decode_service_error(error).reason != _OVERLOADED:
                raise
            message = "the QueryService is overloaded"
            raise Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=_RETRY_AFTER_S) from error

    return call
