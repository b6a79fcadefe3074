"""The gRPC server: the services of the contract, health, reflection, size limits, and draining.

It begins again where gRPC ends it unasked: grpcio reads the path of a call as UTF-8 in the task that accepts all calls.
A path that is none ends that task. No interceptor runs before that. So what is left is to listen again at once, at the
same address.
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
from nomemory.server.overload.open_files import affordable
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.rpc.call_path import HEALTH, CallPath
from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger

_log = get_logger("rpc")
_LEAVE_S = 5.0
"""What the connections of a server that was ended have for the calls in flight."""
_ACCEPTING = "_server_main_loop"
"""The coroutine in which grpcio accepts calls."""

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
        self._accepting = set[asyncio.Task[object]]()
        self._supervisor = Supervisor()
        self._watch: asyncio.Task[None] | None = None
        self._leaving = set[asyncio.Task[None]]()

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
        others = asyncio.all_tasks()
        async with AsyncExitStack() as unless_it_serves:
            unless_it_serves.push_async_callback(server.stop, None)  # so that it gives the port back
            await server.start()
            unless_it_serves.pop_all()
        # grpcio tells nobody that it accepts no more before the last connection has gone, which may just stay.
        begun = asyncio.all_tasks() - others
        self._accepting = {task for task in begun if _ACCEPTING in getattr(task.get_coro(), "__qualname__", "")}
        self._server = server
        return bound

    async def _serve_again(self, bound: ListenAddress) -> None:
        while True:
            if self._server is None:
                await self._begin(bound)
            else:
                await asyncio.wait(self._accepting)
                _log.error("gRPC ended the server, which serves again")
                leaving = asyncio.create_task(self._server.stop(_LEAVE_S))
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
                self._server = None


class GrpcServer:
    """Serves calls over gRPC.

    Args:
        path: what they pass.
        settings: limits, TLS.
    """

    def __init__(self, path: CallPath, settings: Settings) -> None:
        self._path = path
        self._settings = settings
        self._tls = tls_files(settings)
        self._server = RestartingServer(self._listen)

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound. Port 0 picks a free one.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        return await self._server.start(address)

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish, for so many seconds."""
        await self._server.stop(grace_s)

    def _listen(self, at: ListenAddress) -> tuple[grpc.aio.Server, ListenAddress]:
        server = _server(self._settings, self._path.interceptors)
        server.add_generic_rpc_handlers(self._path.handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._path.health, server)
        if self._settings.server.reflection:
            reflection.enable_server_reflection([*self._path.names, HEALTH, reflection.SERVICE_NAME], server)
        return server, _bind(server, at, self._tls)


def _server(settings: Settings, interceptors: Sequence[grpc.aio.ServerInterceptor]) -> grpc.aio.Server:
    return grpc.aio.server(
        interceptors=interceptors,
        options=[
            *_connection_limits(settings),
            # Without this a second server on the same port binds silently and takes half of the connections.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", settings.limits.request_max_bytes),
            ("grpc.max_send_message_length", -1),
        ],
    )


def _connection_limits(settings: Settings) -> list[tuple[str, int]]:
    connections = settings.connections
    limits_s = {
        "grpc.max_connection_idle_ms": connections.connection_idle_s,
        "grpc.max_connection_age_ms": connections.connection_age_s,
        "grpc.max_connection_age_grace_ms": connections.connection_grace_s,
        "grpc.server_handshake_timeout_ms": connections.connection_handshake_s,
        "grpc.keepalive_time_ms": connections.keepalive_s,
        "grpc.keepalive_timeout_ms": connections.keepalive_timeout_s,
        "grpc.http2.min_ping_interval_without_data_ms": connections.client_ping_s,
    }
    return [
        *((name, int(seconds * 1000)) for name, seconds in limits_s.items()),
        ("grpc.max_allowed_incoming_connections", affordable(settings).grpc),
        ("grpc.max_concurrent_streams", connections.connection_streams_max),
        ("grpc.keepalive_permit_without_calls", 1),
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
