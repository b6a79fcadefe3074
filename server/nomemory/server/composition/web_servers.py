"""The servers of one process over HTTP. What they need takes a while to load: a process without them does not."""

from __future__ import annotations

from nomemory.server.identity.access import Access
from nomemory.server.identity.tls import tls_files
from nomemory.server.metrics.text import Exposition
from nomemory.server.overload.connections import affordable
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.web.application import application_of_calls, application_of_metrics
from nomemory.server.web.asgi_server import AsgiServer
from nomemory.server.web.connection import Connection, ConnectionLimits
from nomemory.server.web.pages import MetricsPage


class WebServers:
    """Makes them. They have one page of metrics.

    Args:
        path: what calls pass.
        settings: limits, TLS.
        access: decides who may call what.
        exposition: answers scrapes; None: nothing does.
    """

    def __init__(self, path: CallPath, settings: Settings, access: Access, exposition: Exposition | None) -> None:
        self._path = path
        self._settings = settings
        self._page = MetricsPage(exposition, path.bounds, access, settings) if exposition else None

    def of_calls(self, *, is_shared: bool) -> AsgiServer:
        """Make the one that serves calls. A connection stays once a call on it was admitted.

        Args:
            is_shared: other processes serve at the same address. Somebody has to hold it for all of them.
        """
        application = application_of_calls(self._path, self._settings, self._page)
        limits = ConnectionLimits(self._settings, affordable(self._settings).http, is_shared)
        return AsgiServer(application, tls_files(self._settings), limits, self._stays)

    def of_metrics(self) -> AsgiServer | None:
        """Make the one that serves metrics and nothing else; None: there are none."""
        if self._page is None:
            return None
        application = application_of_metrics(self._page, self._path, self._settings)
        limits = ConnectionLimits(self._settings, self._settings.metrics.connections_max)
        return AsgiServer(application, tls_files(self._settings), limits)

    def _stays(self, connection: Connection) -> bool:
        return connection.is_working() or connection.peer in self._path.bounds.proven
