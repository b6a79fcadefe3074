"""The gRPC interceptor that dispatches calls to the pipeline.

Calls of unknown methods are rejected with UNIMPLEMENTED.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import grpc

from nomemory.server.api.grpc.adapter import MethodAdapter, RpcHandler
from nomemory.server.api.grpc.public_services import is_public_path, limit_public_handler
from nomemory.server.api.pipeline import Pipeline

Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[RpcHandler | None]]"


class PipelineInterceptor(grpc.aio.ServerInterceptor):
    """Selects the handler of each gRPC call: an adapter of the pipeline, or a public service."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._limits = pipeline.limits
        self._handlers = {
            path: MethodAdapter(pipeline, method).make_handler() for path, method in pipeline.methods.items()
        }

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> RpcHandler | None:
        """Return the handler of a call, or None for an unknown method, which gRPC rejects with UNIMPLEMENTED."""
        path = handler_call_details.method
        handler = self._handlers.get(path)
        if handler is not None or not is_public_path(path):
            return handler
        public = await continuation(handler_call_details)
        return None if public is None else limit_public_handler(public, self._limits)
