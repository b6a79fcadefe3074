"""Serves the services of one process: over gRPC, and over HTTP where the settings say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nomemory.server.composition.log_watch import Watch
from nomemory.server.identity.access import Access
from nomemory.server.identity.tls import tls_files
from nomemory.server.listen_address import Addresses
from nomemory.server.metrics.exposition import Exposition
from nomemory.server.metrics.meters import Meters
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.rpc.grpc_server import GrpcServer
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.settings import Settings
from nomemory.server.web.asgi_server import AsgiServer
from nomemory.server.web.connection import ConnectionLimits
from nomemory.server.web.metrics_application import MetricsApplication
from nomemory.server.web.metrics_page import MetricsPage
from nomemory.server.web.server import HttpServer


@dataclass(frozen=True, slots=True)
class Figures:
    """What counts in a process, and what answers a scrape of it."""

    meters: Meters
    exposition: Exposition


@asynccontextmanager
async def serving(
    services: Sequence[Service],
    addresses: Addresses,
    settings: Settings,
    access: Access,
    *,
    is_shared: bool = False,
    host: HostInterceptors = HostInterceptors(),  # noqa: B008 - frozen
    figures: Figures | None = None,
    watch: Watch | None = None,
) -> AsyncIterator[Addresses]:
    """Serve until the context is left, then let calls in flight finish. Return the addresses that were bound.

    Args:
        services: what is served, beside health and reflection.
        addresses: where; port 0 picks a free one.
        settings: limits, deadlines, TLS.
        access: decides who may call what.
        is_shared: other processes serve at the same addresses. Somebody has to hold them for all of them.
        host: interceptors to run before and after NoMemory's own.
        figures: what counts, and what answers a scrape; None: nothing does.
        watch: finds out, while the services serve, whether they can.

    Raises:
        ListenAddressError: a port is taken.
        IdentitySettingsError: the files for TLS cannot be used.
    """
    path = CallPath(services, settings, access, host, figures.meters.calls if figures else None)
    page = MetricsPage(figures.exposition, path.bounds, access, settings) if figures else None
    servers: list[GrpcServer | HttpServer | AsgiServer] = []
    watching: list[asyncio.Task[None]] = []
    try:
        servers.append(GrpcServer(path, settings, is_shared=is_shared))
        grpc = await servers[-1].start(addresses.grpc)
        http = None
        if addresses.http is not None:
            servers.append(HttpServer(path, settings, page, is_shared=is_shared))
            http = await servers[-1].start(addresses.http)
        metrics = None
        if addresses.metrics is not None and page is not None:
            servers.append(_scraped(MetricsApplication(page, path, settings), settings))
            metrics = await servers[-1].start(addresses.metrics)
        await path.open()
        if watch is not None:
            watching.append(asyncio.create_task(_watched(watch, path)))
        yield Addresses(grpc, http, metrics)
    finally:
        for task in watching:
            task.cancel()
        await path.close()
        await asyncio.gather(*(server.stop(settings.timing.drain_s) for server in servers))


async def _watched(watch: Watch, path: CallPath) -> None:
    async def say(serves: bool) -> None:  # noqa: FBT001 - the one thing that is said
        await path.say(serves=serves)

    await watch(say)


def _scraped(application: MetricsApplication, settings: Settings) -> AsgiServer:
    limits = ConnectionLimits.of(settings, is_shared=False)
    return AsgiServer(application, tls_files(settings), limits, settings.metrics.connections_max, is_shared=False)
