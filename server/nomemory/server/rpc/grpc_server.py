"""The gRPC server: the services of the contract, health, reflection, size limits, and draining."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from nomemory.server.identity.access import Access
from nomemory.server.identity.tls import TlsFiles, server_credentials, tls_files
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.rpc.bounds import Bounds
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.call_lifecycle import CallLifecycle
from nomemory.server.rpc.handlers import generic_handler, needs_by_path
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.rpc.interceptor import NoMemoryInterceptor
from nomemory.server.rpc.open_files import affordable_connections
from nomemory.server.rpc.restarting_server import RestartingServer
from nomemory.server.rpc.stranger_watch import watch_strangers
from nomemory.server.settings import Settings
from nomemory.server.settings.connections import ConnectionSettings

_SERVING = health_pb2.HealthCheckResponse.SERVING
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


@asynccontextmanager
async def serving(
    services: Sequence[Service],
    address: ListenAddress,
    settings: Settings,
    access: Access,
    *,
    is_shared: bool = False,
    host: HostInterceptors = HostInterceptors(),  # noqa: B008 - frozen
) -> AsyncIterator[ListenAddress]:
    """Serve until the context is left, then let calls in flight finish. Return the address that was bound.

    Args:
        services: what is served, beside health and reflection.
        address: where; port 0 picks a free one.
        settings: limits, deadlines, TLS.
        access: decides who may call what.
        is_shared: other processes serve at the same address. Somebody has to hold it for all of them.
        host: interceptors to run before and after NoMemory's own.

    Raises:
        ListenAddressError: the port is taken.
        IdentitySettingsError: the files for TLS cannot be used.
    """
    bounds = Bounds(settings.connections, streams_are_wrapped=bool(host.outer))
    interceptors = (*host.outer, _interceptor(services, settings, access, bounds), *host.inner)
    states = health.aio.HealthServicer()
    listener = _Listener(settings, services, states, interceptors, tls_files(settings), is_shared)
    server = RestartingServer(listener.listen)
    bound = await server.start(address)
    for name in ("", *_names(services)):
        await states.set(name, _SERVING)
    watch = asyncio.create_task(watch_strangers(bound.port, bounds.proven, settings.connections))
    try:
        yield bound
    finally:
        watch.cancel()
        await states.enter_graceful_shutdown()
        await server.stop(settings.timing.drain_s)


def _interceptor(
    services: Sequence[Service], settings: Settings, access: Access, bounds: Bounds
) -> NoMemoryInterceptor:
    lifecycle = CallLifecycle(access, settings.timing.deadline_default_s, settings.timing.deadline_import_s)
    needs = {path: need for service in services for path, need in needs_by_path(service).items()}
    open_services = frozenset({_HEALTH, reflection.SERVICE_NAME})
    return NoMemoryInterceptor(lifecycle, needs, open_services, bounds)


def _names(services: Sequence[Service]) -> list[str]:
    return [service.full_name for service in services]


@dataclass(frozen=True, slots=True)
class _Listener:
    """Makes the one server that listens, and another whenever gRPC has ended that."""

    settings: Settings
    services: Sequence[Service]
    states: health.aio.HealthServicer
    interceptors: Sequence[grpc.aio.ServerInterceptor]
    tls: TlsFiles | None
    is_shared: bool

    def listen(self, address: ListenAddress) -> tuple[grpc.aio.Server, ListenAddress]:
        """Bind a server to an address; return it, to be started, and the address with the port that was found.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        server = grpc.aio.server(interceptors=self.interceptors, options=self._options())
        server.add_generic_rpc_handlers([generic_handler(service) for service in self.services])
        health_pb2_grpc.add_HealthServicer_to_server(self.states, server)
        if self.settings.server.reflection:
            names = (*_names(self.services), _HEALTH, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        return server, _bind(server, address, self.tls)

    def _options(self) -> list[tuple[str, int]]:
        # A connection stays with the process that accepted it. Ending connections now and then spreads them again.
        age_ms = int(self.settings.workers.connection_s * 1000)
        return [
            *([("grpc.max_connection_age_ms", age_ms)] if self.is_shared else []),
            *_connection_limits(self.settings.connections),
            # Without this a second server on the same port binds silently and takes half of the connections.
            ("grpc.so_reuseport", int(self.is_shared)),
            ("grpc.max_receive_message_length", self.settings.limits.request_max_bytes),
            ("grpc.max_send_message_length", -1),
        ]


def _connection_limits(connections: ConnectionSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_allowed_incoming_connections", affordable_connections(connections.connections_max)),
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
