"""A host that runs the server with an interceptor of its own: `python -c "import server.host; server.host.main()"`."""

from __future__ import annotations

import os
import sys
from typing import Any

import grpc

from nomemory.server.app import serve
from nomemory.server.listen_address import Addresses
from nomemory.server.rpc.call import Handler
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.rpc.interceptor import Continuation
from nomemory.server.settings import Settings

ANSWERED_BY = "x-answered-by"


class Stamp(grpc.aio.ServerInterceptor):
    """Says in initial metadata that it has seen a call of one reply."""

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        assert handler is not None
        answer: Any = handler.stream_unary

        async def stamped(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> object:
            await context.send_initial_metadata(((ANSWERED_BY, str(os.getpid())),))
            return await answer(requests, context)

        return grpc.stream_unary_rpc_method_handler(
            stamped,
            handler.request_deserializer,
            handler.response_serializer,
        )


def announce(address: Addresses) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


def main() -> None:
    serve(Settings.from_environment(), announce, interceptors=HostInterceptors(outer=(Stamp(),)))
