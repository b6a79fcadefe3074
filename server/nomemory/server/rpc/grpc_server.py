"""The gRPC server: the services of the contract, health, reflection, size limits, and draining.

A gRPC server that begins again where gRPC ends it unasked.

grpcio reads the path of a call as UTF-8 in the loop that accepts all calls. A path that is none ends the loop, and the
server with it. No interceptor runs before that. So what is left is to listen again at once, at the same address.

gRPC calls a server ended when its last connection has gone, which may be long after it has stopped to listen: whoever
sent that path only has to stay. So what is watched are the sockets that listen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from nomemory.server.identity.tls import TlsFiles, server_credentials, tls_files
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.overload.connections import affordable, are_open, clients, close, listeners, watch_strangers
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.rpc.call_path import HEALTH, CallPath
from nomemory.server.settings import Settings
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


class GrpcServer:
    """Serves calls over gRPC.

    Args:
        path: what they pass.
        settings: limits, TLS.
        is_shared: other processes serve at the same address. Somebody has to hold it for all of them.
    """

    def __init__(self, path: CallPath, settings: Settings, *, is_shared: bool) -> None:
        self._path = path
        self._settings = settings
        self._is_shared = is_shared
        self._tls = tls_files(settings)
        self._server = RestartingServer(self._listen)
        self._watch: asyncio.Task[None] | None = None

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound. Port 0 picks a free one.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        bound = await self._server.start(address)
        most = affordable(self._settings).grpc
        watched = watch_strangers(bound.port, self._path.bounds.proven, self._settings.connections, most)
        self._watch = asyncio.create_task(watched)
        return bound

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish, for so many seconds."""
        if self._watch is not None:
            self._watch.cancel()
        await self._server.stop(grace_s)

    def _listen(self, at: ListenAddress) -> tuple[grpc.aio.Server, ListenAddress]:
        server = _server(self._settings, self._path.interceptors, is_shared=self._is_shared)
        server.add_generic_rpc_handlers(self._path.handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._path.health, server)
        if self._settings.server.reflection:
            reflection.enable_server_reflection([*self._path.names, HEALTH, reflection.SERVICE_NAME], server)
        return server, _bind(server, at, self._tls)


def _server(
    settings: Settings, interceptors: Sequence[grpc.aio.ServerInterceptor], *, is_shared: bool
) -> grpc.aio.Server:
    # A connection stays with the process that accepted it. Ending connections now and then spreads them again.
    age = [("grpc.max_connection_age_ms", int(settings.workers.connection_s * 1000))] if is_shared else []
    return grpc.aio.server(
        interceptors=interceptors,
        options=[
            *age,
            *_connection_limits(settings),
            # Without this a second server on the same port binds silently and takes half of the connections.
            ("grpc.so_reuseport", int(is_shared)),
            ("grpc.max_receive_message_length", settings.limits.request_max_bytes),
            ("grpc.max_send_message_length", -1),
        ],
    )


def _connection_limits(settings: Settings) -> list[tuple[str, int]]:
    connections = settings.connections
    return [
        ("grpc.max_allowed_incoming_connections", affordable(settings).grpc),
        ("grpc.max_concurrent_streams", connections.connection_streams_max),
        ("grpc.max_connection_idle_ms", int(connections.connection_idle_s * 1000)),
        ("grpc.server_handshake_timeout_ms", int(connections.connection_handshake_s * 1000)),
        ("grpc.keepalive_time_ms", int(connections.keepalive_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(connections.keepalive_timeout_s * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", int(connections.client_ping_s * 1000)),
        # What arrives before anybody reads it would grow with the speed of the line.
        ("grpc.http2.bdp_probe", 0),
    ]


def _bind(server: grpc.aio.Server, address: ListenAddress, tls: TlsFiles | None) -> ListenAddress:
    try:
        if tls is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), server_credentials(tls))
    except RuntimeError:
        port = 0
    if port == 0:
        raise ListenAddressError(f"cannot listen on {address}: is the port taken?")
    return ListenAddress(address.host, port)
