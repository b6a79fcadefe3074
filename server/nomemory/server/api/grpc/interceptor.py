"""The interceptor through which every call over gRPC reaches its handler.

It authenticates the caller, binds a recall to the user of the caller's token or of the metadata, and calls the handler
with the `CallContext` that says so: all steps of the pipeline. A method that the pipeline does not know does not exist,
apart from health and reflection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import grpc

from nomemory.server.api.grpc.adapter import MethodAdapter, RpcHandler
from nomemory.server.api.grpc.public_services import is_public, limit_public_handler
from nomemory.server.api.pipeline import Pipeline

Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[RpcHandler | None]]"


class PipelineInterceptor(grpc.aio.ServerInterceptor):
    """Answers calls through the pipeline.

    Args:
        pipeline: knows the methods.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._limits = pipeline.limits
        self._handlers = {path: MethodAdapter(pipeline, method).handler() for path, method in pipeline.methods.items()}

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> RpcHandler | None:
        """Return the handler of a call; None answers UNIMPLEMENTED."""
        path = handler_call_details.method
        handler = self._handlers.get(path)
        if handler is not None or not is_public(path):
            return handler
        public = await continuation(handler_call_details)
        return None if public is None else limit_public_handler(public, self._limits)
