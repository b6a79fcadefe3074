"""The servers of one process over HTTP. What they need takes a while to load: a process without them does not."""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.server.identity.access import Access
from nomemory.server.identity.tls import tls_files
from nomemory.server.listen_address import Addresses, ListenAddress
from nomemory.server.metrics.exporter import MetricsExporter
from nomemory.server.overload.open_files import affordable
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.web.application import application_of_calls, application_of_metrics
from nomemory.server.web.asgi_server import AsgiServer
from nomemory.server.web.connection import Connection, ConnectionLimits
from nomemory.server.web.pages import MetricsPage


def web_servers(
    path: CallPath,
    addresses: Addresses,
    settings: Settings,
    access: Access,
    exporter: MetricsExporter | None,
) -> Iterator[tuple[str, AsgiServer, ListenAddress]]:
    """Make the one that serves calls, and the one that serves metrics and nothing else; each with its name and address.

    Args:
        path: what calls pass.
        addresses: where to serve.
        settings: limits, TLS.
        access: decides who may call what.
        exporter: answers scrapes; None: there are no metrics.
    """
    page = MetricsPage(exporter, path.bounds, access, settings) if exporter else None
    tls = tls_files(settings)
    if addresses.http is not None:
        limits = ConnectionLimits(settings, affordable(settings).http)
        application = application_of_calls(path, settings, page)

        def stays(connection: Connection) -> bool:
            return connection.is_working() or connection.peer in path.bounds.proven

        yield "http", AsgiServer(application, tls, limits, stays), addresses.http
    if addresses.metrics is not None and page is not None:
        limits = ConnectionLimits(settings, settings.metrics.connections_max)
        yield "metrics", AsgiServer(application_of_metrics(page, path, settings), tls, limits), addresses.metrics
