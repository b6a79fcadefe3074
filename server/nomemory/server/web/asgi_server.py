"""Serves an ASGI application: connections, their limits, and draining."""

from __future__ import annotations

import asyncio
import logging
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from nomemory.server.identity.tls import TlsFiles
from nomemory.server.listen_address import ListenAddress
from nomemory.server.web.connection import Connection, ConnectionLimits
from nomemory.server.web.exchange import AsgiApplication
from nomemory.server.web.listener import Listener

if TYPE_CHECKING:
    from uvicorn._types import ASGIApplication

_LOOK_S: Final = 1.0
"""How often connections are looked at, and the files for TLS."""
_SILENT: Final = logging.CRITICAL + 1


class AsgiServer:
    """Serves an application over HTTP/1.1. It gets its connection as `state["connection"]` of each request's scope.

    Args:
        application: answers requests; it says by `Connection.working` while it does.
        tls: the files; None: in the clear.
        limits: what a connection may do.
        connections_max: how many there may be. Further ones take the place of those that have brought no request, or
            are closed.
        is_shared: other processes serve at the same address. Somebody has to hold it for all of them.
    """

    def __init__(
        self,
        application: AsgiApplication,
        tls: TlsFiles | None,
        limits: ConnectionLimits,
        connections_max: int,
        *,
        is_shared: bool,
    ) -> None:
        self._limits = limits
        self._most = connections_max
        self._state = ServerState()
        self._config = _config(application, limits)
        self._listener = Listener(self._connection, tls, limits.head_s, is_shared=is_shared)
        self._looking: asyncio.Task[None] | None = None

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound. Port 0 picks a free one.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        self._note_date()
        bound = await self._listener.start(address)
        self._looking = asyncio.create_task(self._look())
        return bound

    async def stop(self, grace_s: float) -> None:
        """Let requests in flight finish, for so many seconds."""
        self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=grace_s)
        for task in list(self._state.tasks):
            task.cancel()
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in list(self._state.connections):
            connection.transport.abort()

    def _connection(self) -> Connection:
        return Connection(self._config, self._state, self._limits, self._has_room)

    def _has_room(self) -> bool:
        """Return whether there is room for one more. The one that has been silent for longest makes room."""
        if len(self._state.connections) < self._most:
            return True
        silent = [one for one in self._state.connections if isinstance(one, Connection) and one.is_silent()]
        if silent:
            min(silent, key=lambda one: one.opened).abort()
        return bool(silent)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self._note_date()
            await self._listener.renew()
            for connection in list(self._state.connections):
                if isinstance(connection, Connection):
                    connection.end_if_overdue()

    def _note_date(self) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]


def _config(application: AsgiApplication, limits: ConnectionLimits) -> Config:
    config = Config(
        cast("ASGIApplication", application),
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=int(limits.idle_s),
    )
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(_SILENT)  # its lines may hold what a request says
    config.load()
    return config
