"""The gRPC server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc

from nomemory.server.api.grpc.interceptor import PipelineInterceptor
from nomemory.server.api.grpc.public_services import add_public_services
from nomemory.server.api.grpc.restarting_server import RestartingServer
from nomemory.server.api.health import ServerHealth
from nomemory.server.api.identity.tls import create_server_credentials, get_tls_files
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.runtime.fd_limits import compute_max_connections
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError
from nomemory.server.runtime.settings import Settings

MAX_STREAMS: Final = 100
"""Maximum number of concurrent calls per connection. Clients queue further calls."""
_HANDSHAKE_TIMEOUT_S: Final = 10
"""Timeout of the TLS and HTTP/2 handshakes."""
_MAX_AGE_S: Final = 900
"""Maximum age of a connection. Clients then reconnect, which balances the load over the replicas."""
_MAX_AGE_GRACE_S: Final = 3600
"""Grace period for calls in flight after the maximum age."""
_KEEPALIVE_S: Final = 60
"""Idle time of a connection before the server sends a keepalive ping."""
_KEEPALIVE_TIMEOUT_S: Final = 20
"""Timeout for the reply to a keepalive ping."""
_MIN_CLIENT_PING_INTERVAL_S: Final = 5
"""Minimum interval between pings of a client. The server closes connections with more frequent pings."""


class GrpcServer:
    """Serves API calls over gRPC.

    Args:
        interceptors: the interceptors of the host program, which run before the pipeline.
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
        self._tls = get_tls_files(settings)
        self._options = _build_server_options(settings)
        self._server = RestartingServer(self._listen)

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Start the server and return the bound address. If the port of `address` is 0, the system selects a free port.

        Raises:
            ListenAddressError: this machine does not have the address, or the port is in use.
            IdentitySettingsError: the TLS files cannot be loaded.
        """
        return await self._server.start(address)

    async def stop(self, grace_s: float) -> None:
        """Stop the server when its calls in flight have completed, but after at most `grace_s` seconds."""
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
                port = server.add_secure_port(str(address), create_server_credentials(self._tls))
        except RuntimeError:
            port = 0
        if port == 0:
            raise ListenAddressError(
                f"cannot listen on {address}: check that this machine has the address and that the port is free"
            )
        return ListenAddress(address.host, port)


def _build_server_options(settings: Settings) -> list[tuple[str, int]]:
    connections = settings.connections
    return [
        # With SO_REUSEPORT, a second server on the same port would silently receive half of the connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.limits.max_request_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", compute_max_connections(connections.max_connections)),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.max_connection_idle_ms", int(connections.connection_idle_timeout_s * 1000)),
        ("grpc.max_connection_age_ms", int(_MAX_AGE_S * 1000)),
        ("grpc.max_connection_age_grace_ms", _MAX_AGE_GRACE_S * 1000),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_TIMEOUT_S * 1000),
        ("grpc.keepalive_time_ms", _KEEPALIVE_S * 1000),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_S * 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _MIN_CLIENT_PING_INTERVAL_S * 1000),
        # The bandwidth probe would enlarge the receive window of fast connections before authentication.
        ("grpc.http2.bdp_probe", 0),
    ]
