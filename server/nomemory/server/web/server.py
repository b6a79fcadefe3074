"""Calls over HTTP: the server, and the watch over who says nothing."""

from __future__ import annotations

import asyncio

from nomemory.server.identity.tls import tls_files
from nomemory.server.listen_address import ListenAddress
from nomemory.server.overload.connections import affordable, watch_strangers
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.web.application import Application
from nomemory.server.web.asgi_server import AsgiServer
from nomemory.server.web.connection import Connection, ConnectionLimits
from nomemory.server.web.metrics_page import MetricsPage


class HttpServer:
    """Serves calls over HTTP.

    Args:
        path: what they pass.
        settings: limits, TLS.
        metrics: tells the figures; None: nothing does.
        is_shared: other processes serve at the same address. Somebody has to hold it for all of them.
    """

    def __init__(
        self, path: CallPath, settings: Settings, metrics: MetricsPage | None = None, *, is_shared: bool
    ) -> None:
        self._path = path
        self._settings = settings
        self._most = affordable(settings).http
        limits = ConnectionLimits.of(settings, is_shared=is_shared)
        application = Application(path, settings, metrics)
        self._server = AsgiServer(
            application, tls_files(settings), limits, self._most, is_shared=is_shared, stays=self._stays
        )
        self._watching: asyncio.Task[None] | None = None

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound. Port 0 picks a free one.

        Raises:
            ListenAddressError: the port is taken.
            IdentitySettingsError: the files for TLS cannot be used.
        """
        bound = await self._server.start(address)
        watched = watch_strangers(bound.port, self._path.bounds.proven, self._settings.connections, self._most)
        self._watching = asyncio.create_task(watched)
        return bound

    def _stays(self, connection: Connection) -> bool:
        return connection.is_working() or connection.peer in self._path.bounds.proven

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish, for so many seconds."""
        if self._watching is not None:
            self._watching.cancel()
        await self._server.stop(grace_s)
