"""A gRPC server that begins again where gRPC ends it unasked.

grpcio reads the path of a call as UTF-8 in the loop that accepts all calls. A path that is none ends the loop, and the
server with it. No interceptor runs before that. So what is left is to listen again at once, at the same address.

gRPC calls a server ended when its last connection has gone, which may be long after it has stopped to listen: whoever
sent that path only has to stay. So what is watched are the sockets that listen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import grpc

from nomemory.server.listen_address import ListenAddress
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.rpc.peer_sockets import are_open, clients, close, listeners
from nomemory.server.structured_logs import get_logger

_log = get_logger("rpc")

_LOOK_S = 0.1
"""How often the sockets that listen are looked at."""
_LEAVE_S = 5.0
"""What the connections of a server that was ended have for the calls in flight."""

Listen = Callable[[ListenAddress], tuple[grpc.aio.Server, ListenAddress]]


class RestartingServer:
    """Serves until it is stopped.

    Args:
        listen: makes a server that listens at an address; returns it and the address that was bound. Whatever it
            raises later, it is called again: the system may need a moment to give the port back, and files for TLS
            may make sense again.
    """

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._server: grpc.aio.Server | None = None
        self._supervisor = Supervisor()
        self._watch: asyncio.Task[None] | None = None
        self._ending = set[asyncio.Task[bool]]()

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound.

        Raises:
            whatever `listen` raises.
        """
        bound = await self._begin(address)
        self._watch = self._supervisor.start_task("grpc-server", partial(self._serve_again, bound))
        return bound

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish, for so many seconds."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        if self._server is not None:
            await self._server.stop(grace_s)

    async def _begin(self, address: ListenAddress) -> ListenAddress:
        server, bound = self._listen(address)
        async with AsyncExitStack() as unless_it_serves:
            unless_it_serves.push_async_callback(server.stop, None)  # so that it gives the port back
            await server.start()
            unless_it_serves.pop_all()
        self._server = server
        return bound

    async def _serve_again(self, bound: ListenAddress) -> None:
        while True:
            if self._server is None:
                await self._begin(bound)
            else:
                await self._ended(self._server, bound.port)
                _log.error("gRPC ended the server, which serves again")
                self._server = None

    async def _ended(self, server: grpc.aio.Server, port: int) -> None:
        """Wait until a server listens no more. Who is connected has to leave soon."""
        ended = asyncio.create_task(server.wait_for_termination())  # cancelled, it would keep the server from stopping
        self._ending.add(ended)
        ended.add_done_callback(self._has_ended)
        listening = listeners(port)
        while not ended.done() and (not listening or are_open(listening)):
            await asyncio.wait([ended], timeout=_LOOK_S)
        asyncio.get_running_loop().call_later(_LEAVE_S, close, clients(port))

    def _has_ended(self, ended: asyncio.Task[bool]) -> None:
        self._ending.discard(ended)
        if not ended.cancelled() and (error := ended.exception()) is not None:
            _log.error("gRPC has ended a server", kind=type(error).__name__)
