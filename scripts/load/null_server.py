"""The reference: a server that answers with prebuilt bytes. `python -m load.null_server`.

It serves twice, and prints two addresses. Behind the first stand the same server and the same edge as NoMemory's own
(admission, deadline, log); behind the second nothing but gRPC. ListMessages of `page_size` N answers N bytes.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import grpc
import uvloop

from nomemory.server.identity.access import Access, Need
from nomemory.server.identity.factory import choose_authenticator
from nomemory.server.identity.scope import Scope
from nomemory.server.listen_address import parse_listen_address
from nomemory.server.logs import configure_logs
from nomemory.server.rpc.call import Call, ClientStream, ServerStream, Unary
from nomemory.server.rpc.grpc_server import serving
from nomemory.server.settings import Settings
from nomemory.v1 import query_service_pb2 as pb

SERVICE = "nomemory.v1.QueryService"


@dataclass(frozen=True, slots=True)
class NullService:
    """A QueryService that knows one answer."""

    full_name: str = SERVICE

    def needs(self) -> Mapping[str, Need]:
        """Say what each method needs of its caller: what QueryService needs."""
        return dict.fromkeys(self.unary_methods(), Need(frozenset({Scope.QUERY})))

    def unary_methods(self) -> Mapping[str, Unary]:
        """Return the methods: all of them the same."""
        return dict.fromkeys(
            (method.name for method in pb.DESCRIPTOR.services_by_name["QueryService"].methods), _answer
        )

    def client_stream_methods(self) -> Mapping[str, ClientStream]:
        """Return the methods that take a stream of requests: none."""
        return {}

    def server_stream_methods(self) -> Mapping[str, ServerStream]:
        """Return the methods that answer with a stream: none."""
        return {}


@cache
def prebuilt(size: int) -> bytes:
    """Make an answer of so many bytes."""
    return bytes(size)


async def _answer(request: pb.ListMessagesRequest, _call: Call) -> bytes:
    return prebuilt(request.page_size)


async def _bare(raw: bytes, _context: object) -> bytes:
    return prebuilt(pb.ListMessagesRequest.FromString(raw).page_size)


async def main() -> None:
    """Serve until told to stop."""
    settings = Settings(listen="127.0.0.1:0")
    configure_logs(settings.log_level)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    bare = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "ListMessages": grpc.unary_unary_rpc_method_handler(_bare)
    }
    bare.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = bare.add_insecure_port("127.0.0.1:0")
    await bare.start()
    access = Access(choose_authenticator(settings), settings.id_max_chars)
    async with serving([NullService()], parse_listen_address(settings.listen), settings, access) as address:
        print(address, f"127.0.0.1:{port}", flush=True)
        await stop.wait()
    await bare.stop(0)


if __name__ == "__main__":
    uvloop.run(main())
