"""The HTTP/1.1 server, which runs uvicorn in the event loop of the process."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from nomemory.server.api.http.request_metadata import TLS
from nomemory.server.api.http.tls_reload import create_reloading_context
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.tls import TlsFiles
from nomemory.server.runtime.fd_limits import compute_max_connections
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError

_MAX_CONNECTIONS: Final = 1024
"""Maximum number of connections. Requests on further connections get 503."""
_MAX_HEAD_BYTES: Final = 32_768
"""Maximum size of the request line and the headers."""
_BACKLOG: Final = 1024
_SILENT: Final = logging.CRITICAL + 1
"""A log level that disables uvicorn's log entries, because they may quote requests."""


class HttpServer:
    """Serves an ASGI application over HTTP.

    Args:
        tls: the TLS files; None disables TLS.
        idle_s: the idle timeout of connections, in seconds.
    """

    def __init__(self, application: ASGIApp, tls: TlsFiles | None, idle_s: float) -> None:
        self._config = Config(
            application,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            backlog=_BACKLOG,
            limit_concurrency=compute_max_connections(_MAX_CONNECTIONS),
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            timeout_keep_alive=int(idle_s),
            log_config=None,
            log_level=_SILENT,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ssl_context_factory=None if tls is None else lambda *_: create_reloading_context(tls),
        )
        self._server = Server(self._config)
        self._sockets: list[socket.socket] = []
        self._serving: asyncio.Task[None] | None = None

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Start the server and return the bound address. If the port of `address` is 0, the system selects a free port.

        Raises:
            ListenAddressError: this machine does not have the address, or the port is in use.
            IdentitySettingsError: the TLS files cannot be loaded.
        """
        try:
            self._config.load()
        except OSError as error:
            raise IdentitySettingsError(f"cannot load the TLS files: {error.strerror or error}") from None
        bound = self._bind(address)
        self._server.lifespan = self._config.lifespan_class(self._config)
        await self._server.startup(self._sockets)
        self._serving = asyncio.create_task(self._server.main_loop())
        return bound

    async def stop(self, grace_s: float) -> None:
        """Stop the server when its requests in flight have completed, but after at most `grace_s` seconds."""
        if self._serving is None:
            for listener in self._sockets:
                listener.close()
            return
        self._server.should_exit = True
        await self._serving
        self._config.timeout_graceful_shutdown = grace_s  # type: ignore[assignment]  # uvicorn passes the value to asyncio.wait_for
        await self._server.shutdown(self._sockets)

    def _bind(self, address: ListenAddress) -> ListenAddress:
        """Bind sockets to the same port on all addresses of the host."""
        port = address.port
        try:
            addresses = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, _, _, _, target in addresses:
                listener = socket.create_server((target[0], port, *target[2:]), family=family, backlog=_BACKLOG)
                # Accepted connections inherit TCP_NODELAY. With Nagle's algorithm, the second part of a response waits
                # for the acknowledgment of the first.
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(listener)
                port = listener.getsockname()[1]
        except OSError:
            raise ListenAddressError(
                f"cannot listen on {address}: check that this machine has the address and that the port is free"
            ) from None
        return ListenAddress(address.host, port)


class HttpConnection(H11Protocol):
    """A uvicorn connection that adds its TLS object to the scope of each request, for client certificates."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Start the idle timeout of a new connection, which uvicorn starts only after the first request."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, TLS: transport.get_extra_info("ssl_object")}
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
