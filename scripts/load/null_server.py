"""Run reference servers that reply with prebuilt bytes: `python -m load.null_server`.

The process prints the addresses of three servers:

- the production server with its interceptors and its call pipeline;
- plain gRPC;
- gRPC with the call pipeline, but without interceptors.

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
from nomemory.server.api.identity.access import AccessControl, RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.identity.factory import make_authenticator
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import ServedMethod
from nomemory.server.runtime.listen_address import ListenAddresses, parse_listen_address
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.v1 import query_service_pb2 as pb

SERVICE = "nomemory.v1.QueryService"
_METHODS = pb.DESCRIPTOR.services_by_name["QueryService"].methods


@dataclass(frozen=True, slots=True)
class NullService:
    """A QueryService that replies with prebuilt bytes."""

    full_name: str = SERVICE

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return all methods of QueryService, each with the scope that it requires in production."""
        scopes = RequiredScopes(frozenset({Scope.QUERY}))
        return {
            item.name: ServedMethod(scopes, _answer_stream if item.server_streaming else _answer_unary)
            for item in _METHODS
        }


@cache
def build_reply(size: int) -> bytes:
    """Return a cached reply of `size` zero bytes."""
    return bytes(size)


async def _answer_unary(request: pb.ListMessagesRequest, _context: CallContext) -> bytes:
    return build_reply(request.page_size)


async def _answer_stream(_request: pb.ExportMessagesRequest, _context: CallContext) -> AsyncIterator[bytes]:
    yield build_reply(1)


async def _answer_without_pipeline(raw: bytes, _context: object) -> bytes:
    return build_reply(pb.ListMessagesRequest.FromString(raw).page_size)


class SingleHandler(grpc.GenericRpcHandler):
    """A generic gRPC handler that uses the same RPC handler for every method."""

    def __init__(self, handler: RpcHandler) -> None:
        self._handler = handler

    def service(self, _handler_call_details: grpc.HandlerCallDetails) -> RpcHandler:
        """Return the RPC handler for any method."""
        return self._handler


def make_pipeline_handler(settings: Settings, access: AccessControl) -> SingleHandler:
    """Return a handler that runs ListMessages of the null service through the call pipeline."""
    pipeline = Pipeline([NullService()], access, settings.timing.default_deadline_s)
    return SingleHandler(MethodAdapter(pipeline, pipeline.methods[f"/{SERVICE}/ListMessages"]).make_handler())


@asynccontextmanager
async def running_plain_server(handlers: grpc.GenericRpcHandler) -> AsyncIterator[str]:
    """Run a gRPC server without interceptors; yield its address."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([handlers])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def main() -> None:
    """Run the three servers until SIGTERM, and print their addresses."""
    settings = Settings.from_environment(listen="127.0.0.1:0")
    configure_logs(settings.server.log_level)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    access = AccessControl(make_authenticator(settings))
    async with (
        running_servers(
            [NullService()], ListenAddresses(parse_listen_address(settings.server.listen)), settings, access
        ) as intercepted,
        running_plain_server(SingleHandler(grpc.unary_unary_rpc_method_handler(_answer_without_pipeline))) as bare,
        running_plain_server(make_pipeline_handler(settings, access)) as wrapped,
    ):
        print(intercepted, bare, wrapped, flush=True)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main())
