"""Construction of the HTTP servers.

Import this module only if HTTP is enabled, because its libraries are slow to load.
"""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.server.api.health import ServerHealth
from nomemory.server.api.http.application import build_api_application, build_metrics_application
from nomemory.server.api.http.metrics_page import MetricsPage
from nomemory.server.api.http.request_rejecter import RequestRejecter
from nomemory.server.api.http.server import HttpServer
from nomemory.server.api.identity.access import AccessControl
from nomemory.server.api.identity.tls import get_tls_files
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddresses
from nomemory.server.runtime.metrics.exporter import MetricsExporter
from nomemory.server.runtime.settings import Settings


def make_web_servers(
    pipeline: Pipeline,
    health: ServerHealth,
    addresses: ListenAddresses,
    settings: Settings,
    access: AccessControl,
    exporter: MetricsExporter | None,
) -> Iterator[tuple[str, HttpServer, ListenAddress]]:
    """Yield the HTTP servers of the API and of the separate metrics endpoint, with their names and addresses.

    The API has no metrics endpoint if `exporter` is None.
    """
    page = MetricsPage(exporter, access, settings) if exporter else None
    tls, idle_s = get_tls_files(settings), settings.connections.connection_idle_timeout_s
    if addresses.http is not None:
        yield "http", HttpServer(build_api_application(pipeline, health, settings, page), tls, idle_s), addresses.http
    if addresses.metrics is not None and page is not None:
        application = build_metrics_application(page, settings, RequestRejecter(pipeline.meters))
        yield "metrics", HttpServer(application, tls, idle_s), addresses.metrics
