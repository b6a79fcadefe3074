"""A host that runs the server with an interceptor of its own: `python -c "import server.host; server.host.main()"`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from nomemory.server.app import serve
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.settings import Settings

ANSWERED_BY = "x-answered-by"
Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class Stamp(grpc.aio.ServerInterceptor):
    """Says in initial metadata which process answers a unary call."""

    async def intercept_service(self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails) -> Any:
        handler = await continuation(handler_call_details)

        async def stamped(request: object, context: grpc.aio.ServicerContext[Any, Any]) -> object:
            await context.send_initial_metadata(((ANSWERED_BY, str(os.getpid())),))
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            stamped,  # type: ignore[arg-type]  # the stubs know synchronous handlers only
            handler.request_deserializer,
            handler.response_serializer,
        )


def make() -> HostInterceptors:
    return HostInterceptors(outer=(Stamp(),))


def main() -> None:
    serve(Settings(), lambda address: print(f"NoMemory serves {address}.", flush=True), interceptors=make)
