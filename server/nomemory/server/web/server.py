"""The HTTP server: connections, their limits, and draining."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from nomemory.server.identity.tls import tls_files
from nomemory.server.listen_address import ListenAddress
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.rpc.open_files import affordable
from nomemory.server.rpc.stranger_watch import watch_strangers
from nomemory.server.settings import Settings
from nomemory.server.web.connection import Connection, ConnectionLimits
from nomemory.server.web.exchange import Scope
from nomemory.server.web.listener import Listener

_LOOK_S: Final = 1.0
"""How often connections are looked at, and the files for TLS."""
_SILENT: Final = logging.CRITICAL + 1


# Any: ASGI's messages are dicts.
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]
"""Answers one request."""


class HttpServer:
    """Serves calls over HTTP.

    Args:
        application: answers requests.
        path: what they pass.
        settings: limits, TLS.
        is_shared: other processes serve at the same address. Somebody has to hold it for all of them.
        most: how many connections there may be; None: as many as HTTP may have.
    """

    def __init__(
        self, application: Asgi, path: CallPath, settings: Settings, *, is_shared: bool, most: int | None = None
    ) -> None:
        self._path = path
        self._settings = settings
        self._limits = ConnectionLimits.of(settings, is_shared=is_shared)
        self._is_for_calls = most is None
        self._most = affordable(settings).http if most is None else most
        self._state = ServerState()
        self._config = _config(application, settings)
        self._listener = Listener(self._connection, tls_files(settings), settings, is_shared=is_shared)
        self._jobs: list[asyncio.Task[None]] = []

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound. Port 0 picks a free one.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        self._note_date()
        bound = await self._listener.start(address)
        self._jobs = [asyncio.create_task(self._look())]
        if self._is_for_calls:
            watched = watch_strangers(bound.port, self._path.bounds.proven, self._settings.connections, self._most)
            self._jobs.append(asyncio.create_task(watched))
        return bound

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish, for so many seconds."""
        self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=grace_s)
        for task in list(self._state.tasks):
            task.cancel()
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in list(self._state.connections):
            connection.transport.abort()

    def _connection(self) -> Connection:
        return Connection(self._config, self._state, self._limits, self._has_room)

    def _has_room(self) -> bool:
        return len(self._state.connections) < self._most

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


def _config(application: Asgi, settings: Settings) -> Config:
    config = Config(
        application,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=int(settings.connections.connection_idle_s),
    )
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(_SILENT)  # its lines may hold what a request says
    config.load()
    return config
