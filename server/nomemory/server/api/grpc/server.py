"""The gRPC server: options, TLS, health and reflection around the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc

from nomemory.server.api.grpc.interceptor import PipelineInterceptor
from nomemory.server.api.grpc.public_services import add_public_services
from nomemory.server.api.grpc.restarting_server import RestartingServer
from nomemory.server.api.health import ServerHealth
from nomemory.server.api.identity.tls import server_credentials, tls_files
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.runtime.fd_limits import max_connections
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError
from nomemory.server.runtime.settings import Settings

MAX_STREAMS: Final = 100
"""Calls in flight of one connection. A client queues further calls."""
_HANDSHAKE_S: Final = 10
"""How long a new connection may take until it speaks HTTP/2."""
_AGE_S: Final = 900
"""Age at which a connection is ended, so that clients spread over replicas. Its calls go on."""
_AGE_GRACE_S: Final = 3600
"""How long they may go on. Then the connection is closed."""
_KEEPALIVE_S: Final = 60
"""How long a connection may be silent before the server sends a ping."""
_KEEPALIVE_TIMEOUT_S: Final = 20
"""How long the answer may take."""
_CLIENT_PING_S: Final = 5
"""How often a client may send pings, with or without calls. More often ends its connection."""


class GrpcServer:
    """Serves calls over gRPC.

    Args:
        pipeline: answers them.
        health: the states of the services.
        settings: limits, TLS, whether there is reflection.
        interceptors: of the program that embeds the server; they run before the pipeline.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        health: ServerHealth,
        settings: Settings,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> None:
        self._interceptors = (*interceptors, PipelineInterceptor(pipeline))
        self._health = health
        self._reflected = pipeline.service_names if settings.server.reflection else None
        self._tls = tls_files(settings)
        self._options = _options(settings)
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

    def _listen(self, address: ListenAddress) -> tuple[grpc.aio.Server, ListenAddress]:
        server = grpc.aio.server(interceptors=self._interceptors, options=self._options)
        add_public_services(server, self._health.servicer, self._reflected)
        return server, self._bind(server, address)

    def _bind(self, server: grpc.aio.Server, address: ListenAddress) -> ListenAddress:
        try:
            if self._tls is None:
                port = server.add_insecure_port(str(address))
            else:
                port = server.add_secure_port(str(address), server_credentials(self._tls))
        except RuntimeError:
            port = 0
        if port == 0:
            raise ListenAddressError(f"cannot listen on {address}: is the port taken?")
        return ListenAddress(address.host, port)


def _options(settings: Settings) -> list[tuple[str, int]]:
    connections = settings.connections
    return [
        # Without this a second server on the same port binds silently and takes half of the connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.limits.max_request_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", max_connections(connections.max_connections)),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.max_connection_idle_ms", int(connections.connection_idle_timeout_s * 1000)),
        ("grpc.max_connection_age_ms", int(_AGE_S * 1000)),
        ("grpc.max_connection_age_grace_ms", _AGE_GRACE_S * 1000),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_S * 1000),
        ("grpc.keepalive_time_ms", _KEEPALIVE_S * 1000),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_S * 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _CLIENT_PING_S * 1000),
        # Without this the receive window of a connection grows with its speed, before anybody reads.
        ("grpc.http2.bdp_probe", 0),
    ]
