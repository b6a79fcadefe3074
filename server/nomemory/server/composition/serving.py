"""Serves the services: over gRPC, and over HTTP where the settings say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from nomemory.server.composition.log_health import HealthCheck
from nomemory.server.identity.access import Access
from nomemory.server.listen_address import Addresses, ListenAddress
from nomemory.server.metrics.exporter import MetricsExporter
from nomemory.server.metrics.meters import Meters
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.rpc.grpc_server import GrpcServer
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.settings import Settings
from nomemory.spans.span import CallTracer


class _Server(Protocol):
    """A server of one protocol."""

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound."""

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish, for so many seconds."""


_Named = tuple[str, _Server, ListenAddress]
"""A server and where it serves, named as in `Addresses`."""


@asynccontextmanager
async def serving(  # noqa: PLR0913 - what goes around the calls of a server
    services: Sequence[Service],
    addresses: Addresses,
    settings: Settings,
    access: Access,
    *,
    host: HostInterceptors = HostInterceptors(),  # noqa: B008 - frozen
    meters: Meters | None = None,
    exporter: MetricsExporter | None = None,
    health_check: HealthCheck | None = None,
    tracer: CallTracer | None = None,
) -> AsyncIterator[Addresses]:
    """Serve until the context is left, then let calls in flight finish. Return the addresses that were bound.

    Args:
        services: the services, beside health and reflection.
        addresses: where to listen; port 0 picks a free one.
        settings: limits, deadlines, TLS.
        access: decides who may call what.
        host: interceptors to run before and after NoMemory's own.
        meters: counts calls; None: nothing does.
        exporter: answers scrapes; None: there are no metrics.
        health_check: sets the health status while the services serve.
        tracer: begins the spans of calls; None: there are none.

    Raises:
        ListenAddressError: a port is taken.
        IdentitySettingsError: the files for TLS cannot be used.
    """
    path = CallPath(services, settings, access, host, meters, tracer)
    named: list[_Named] = [("grpc", GrpcServer(path, settings), addresses.grpc)]
    if addresses.http is not None or addresses.metrics is not None:
        from nomemory.server.composition.web_servers import web_servers  # noqa: PLC0415 - see there

        named += web_servers(path, addresses, settings, access, exporter)
    servers: list[_Server] = []
    bound: dict[str, ListenAddress] = {}
    checks: list[asyncio.Task[None]] = []
    try:
        for name, server, address in named:
            servers.append(server)
            bound[name] = await server.start(address)
        await path.open()
        if health_check is not None:
            checks.append(asyncio.create_task(health_check(path.say)))
        yield Addresses(**bound)
    finally:
        for check in checks:
            check.cancel()
        await path.close()
        await asyncio.gather(*(server.stop(settings.timing.drain_s) for server in servers))
