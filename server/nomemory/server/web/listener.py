"""Where connections come in: the sockets, and TLS with files that can be renewed in place."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from nomemory.server.identity.settings_error import IdentitySettingsError
from nomemory.server.identity.tls import TlsFiles
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.structured_logs import get_logger

_log = get_logger("http")

_BACKLOG = 1024


class Listener:
    """Accepts connections.

    Args:
        connection: makes the protocol of one.
        tls: the files; None: in the clear.
        handshake_s: how long a handshake may take.
        is_shared: other processes accept at the same address.
    """

    def __init__(
        self, connection: Callable[[], asyncio.Protocol], tls: TlsFiles | None, handshake_s: float, *, is_shared: bool
    ) -> None:
        self._connection = connection
        self._tls = tls
        self._handshake_s = handshake_s
        self._is_shared = is_shared
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._stamp: object = None

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
        if self._tls is None:
            return
        try:
            if self._tls.stamp() == self._stamp:
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
        if self._tls is None:
            return None
        self._stamp = self._tls.stamp()
        return self._tls.context()

    def _bind(self, address: ListenAddress) -> ListenAddress:
        """Bind to every address that the host's name stands for, at one port."""
        port = address.port
        places = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, place in places:
            own = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio leaves Nagle on
            self._sockets.append(own)
            own.setblocking(False)  # noqa: FBT003 - the system's own call
            if family == socket.AF_INET6:
                own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT if self._is_shared else socket.SO_REUSEADDR, 1)
            own.bind((place[0], port, *place[2:]))
            own.listen(_BACKLOG)
            port = own.getsockname()[1]
        return ListenAddress(address.host, port)

    async def _accept(self, context: ssl.SSLContext | None) -> list[asyncio.Server]:
        # A server closes its socket when it ends; a copy goes on when another one follows it.
        loop, handshake_s = asyncio.get_running_loop(), None if context is None else self._handshake_s
        return [
            await loop.create_server(
                self._connection, sock=own.dup(), ssl=context, ssl_handshake_timeout=handshake_s, backlog=_BACKLOG
            )
            for own in self._sockets
        ]
