"""Reference servers that reply with prebuilt bytes: `python -m load.null_server`.

Prints the addresses of three servers:

1. the production server with its interceptors and its call pipeline;
2. plain gRPC;
3. the handler of server 1 without gRPC interceptors.

ListMessages with `page_size` N returns N bytes.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

import grpc
import uvloop

from nomemory.server.api.call import CallContext
from nomemory.server.api.grpc.adapter import MethodAdapter, RpcHandler
from nomemory.server.api.identity.access import Access, RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.identity.factory import make_authenticator
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import ServedMethod
from nomemory.server.runtime.listen_address import Addresses, parse_listen_address
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.v1 import query_service_pb2 as pb

SERVICE = "nomemory.v1.QueryService"
_METHODS = pb.DESCRIPTOR.services_by_name["QueryService"].methods


@dataclass(frozen=True, slots=True)
class NullService:
    """A QueryService with constant replies."""

    full_name: str = SERVICE

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return all methods, each with the scopes of QueryService."""
        scopes = RequiredScopes(frozenset({Scope.QUERY}))
        return {
            item.name: ServedMethod(scopes, _answer_stream if item.server_streaming else _answer_unary)
            for item in _METHODS
        }


@cache
def build_reply(size: int) -> bytes:
    """Return a reply of `size` bytes."""
    return bytes(size)


async def _answer_unary(request: pb.ListMessagesRequest, _context: CallContext) -> bytes:
    return build_reply(request.page_size)


async def _answer_stream(_request: pb.ExportMessagesRequest, _context: CallContext) -> AsyncIterator[bytes]:
    yield build_reply(1)


async def _answer_without_pipeline(raw: bytes, _context: object) -> bytes:
    return build_reply(pb.ListMessagesRequest.FromString(raw).page_size)


class SingleHandler(grpc.GenericRpcHandler):
    """A gRPC handler that serves every method with one RPC handler."""

    def __init__(self, handler: RpcHandler) -> None:
        self._handler = handler

    def service(self, _handler_call_details: grpc.HandlerCallDetails) -> RpcHandler:
        """Return the RPC handler."""
        return self._handler


def make_pipeline_handler(settings: Settings, access: Access) -> SingleHandler:
    """Return the pipeline handler of the null service."""
    pipeline = Pipeline([NullService()], access, settings.timing.default_deadline_s)
    return SingleHandler(MethodAdapter(pipeline, pipeline.methods[f"/{SERVICE}/ListMessages"]).handler())


@asynccontextmanager
async def run_grpc_server(handlers: grpc.GenericRpcHandler) -> AsyncIterator[str]:
    """Run a gRPC server without interceptors; yield its address."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([handlers])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def main() -> None:
    """Serve until SIGTERM."""
    settings = Settings.from_environment(listen="127.0.0.1:0")
    configure_logs(settings.server.log_level)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    access = Access(make_authenticator(settings))
    async with (
        running_servers(
            [NullService()], Addresses(parse_listen_address(settings.server.listen)), settings, access
        ) as intercepted,
        run_grpc_server(SingleHandler(grpc.unary_unary_rpc_method_handler(_answer_without_pipeline))) as bare,
        run_grpc_server(make_pipeline_handler(settings, access)) as wrapped,
    ):
        print(intercepted, bare, wrapped, flush=True)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main())
