"""Serves an ASGI application: connections, their limits, draining, and TLS with files that can be renewed in place."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from nomemory.server.identity.credentials import IdentitySettingsError
from nomemory.server.identity.tls import TlsFiles
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger
from nomemory.server.web.connection import Connection, ConnectionLimits
from nomemory.server.web.exchange import Scope

AsgiApplication = Callable[[Scope, Any, Any], Awaitable[None]]
"""Answers requests, as ASGI has them. Any: its messages are dicts."""
_log = get_logger("http")
_BACKLOG: Final = 1024
_LOOK_S: Final = 1.0
"""How often connections are looked at, and the files for TLS."""
_SILENT: Final = logging.CRITICAL + 1
"""uvicorn's lines may hold what a request says."""


@dataclass(eq=False)
class Listener:
    """Accepts connections.

    Attributes:
        connection: makes the protocol of one.
        tls: the files; None: in the clear.
        limits: how long a handshake may take.
    """

    connection: Callable[[], asyncio.Protocol]
    tls: TlsFiles | None
    limits: ConnectionLimits
    _sockets: list[socket.socket] = field(default_factory=list, init=False)
    _servers: list[asyncio.Server] = field(default_factory=list, init=False)
    _stamp: object = field(default=None, init=False)

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Accept connections; return the address that was bound.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        try:
            context = self._context()
        except OSError as error:
            raise IdentitySettingsError(f"the files for TLS cannot be used: {error.strerror or error}") from None
        try:
            bound = self._bind(address)
        except OSError:
            self.close()
            raise ListenAddressError(f"cannot listen on {address}: is the port taken?") from None
        self._servers = await self._accept(context)
        return bound

    async def renew(self) -> None:
        """Look whether the files for TLS have changed. While they make no sense together, those from before stay."""
        if self.tls is None:
            return
        try:
            if self.tls.stamp() == self._stamp:
                return
            context = self._context()
        except OSError as error:
            _log.error("the files for TLS cannot be used, those from before stay", kind=type(error).__name__)
            return
        former, self._servers = self._servers, await self._accept(context)
        for server in former:
            server.close()

    def close(self) -> None:
        """Accept no more."""
        for server in self._servers:
            server.close()
        for own in self._sockets:
            own.close()

    def _context(self) -> ssl.SSLContext | None:
        if self.tls is None:
            return None
        self._stamp = self.tls.stamp()
        return self.tls.context()

    def _bind(self, address: ListenAddress) -> ListenAddress:
        """Bind to every address that the host's name stands for, at one port."""
        port = address.port
        places = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, place in places:
            at = (place[0], port, *place[2:])
            own = socket.create_server(at, family=family, backlog=_BACKLOG)
            self._sockets.append(own)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # so what is accepted has it, on any event loop
            port = own.getsockname()[1]
        return ListenAddress(address.host, port)

    async def _accept(self, context: ssl.SSLContext | None) -> list[asyncio.Server]:
        # A server closes its socket when it ends; a copy goes on when another one follows it.
        loop, handshake_s = asyncio.get_running_loop(), None if context is None else self.limits.settings.http.head_s
        return [
            await loop.create_server(
                self.connection, sock=own.dup(), ssl=context, ssl_handshake_timeout=handshake_s, backlog=_BACKLOG
            )
            for own in self._sockets
        ]


class AsgiServer:
    """Serves an application over HTTP/1.1. It gets its connection as `state["connection"]` of each request's scope.

    Args:
        application: answers requests.
        tls: the files; None: in the clear.
        limits: what connections may do. Those beyond the most take the place of one that does not stay, or are closed.
        stays: whether a connection keeps its place: here if it has brought a request.
    """

    def __init__(
        self,
        application: AsgiApplication,
        tls: TlsFiles | None,
        limits: ConnectionLimits,
        stays: Callable[[Connection], bool] = Connection.has_asked,
    ) -> None:
        self._application = application
        self._limits = limits
        self._stays = stays
        self._state = ServerState()
        self._connections = cast("set[Connection]", self._state.connections)
        self._config = _config(self._answer, limits.settings)
        self._listener = Listener(lambda: Connection(self._config, self._state, limits, self._has_room), tls, limits)
        self._looking: asyncio.Task[None] | None = None

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound. Port 0 picks a free one.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        bound = await self._listener.start(address)
        self._looking = asyncio.create_task(self._look())
        return bound

    async def stop(self, grace_s: float) -> None:
        """Let requests in flight finish, for so many seconds."""
        self._listener.close()
        for connection in list(self._connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=grace_s)
        for task in list(self._state.tasks):
            task.cancel()
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()

    async def _answer(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's messages are dicts
        connection: Connection = scope["state"]["connection"]
        connection.task = asyncio.current_task()
        try:
            await self._application(scope, receive, send)
        except asyncio.CancelledError:
            connection.abort()
        finally:
            connection.task = None

    def _has_room(self) -> bool:
        """Return whether there is room for one more. The oldest of those that do not stay makes room."""
        if len(self._connections) < self._limits.connections_max:
            return True
        leaving = [one for one in self._connections if not (one.transport.is_closing() or self._stays(one))]
        if leaving:
            min(leaving, key=lambda one: one.opened).abort()
        return bool(leaving)

    async def _look(self) -> None:
        while True:
            self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await self._listener.renew()
            for connection in list(self._connections):
                connection.end_if_overdue()
            await asyncio.sleep(_LOOK_S)


def _config(application: AsgiApplication, settings: Settings) -> Config:
    return Config(
        application,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level=_SILENT,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=int(settings.connections.connection_idle_s),
    )
