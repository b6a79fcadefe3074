"""Startup and shutdown of the gRPC and HTTP servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from nomemory.server.api.admission.read_admission import ReadAdmission
from nomemory.server.api.grpc.server import GrpcServer
from nomemory.server.api.health import ServerHealth
from nomemory.server.api.host_interceptors import HostInterceptors
from nomemory.server.api.identity.access import AccessControl
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import Service
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddresses
from nomemory.server.runtime.metrics.exporter import MetricsExporter
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.wiring.log_health import HealthCheck
from nomemory.spans.span import CallTracer


class _TransportServer(Protocol):
    """A server for one transport, gRPC or HTTP."""

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Start the server and return its bound address."""

    async def stop(self, grace_s: float) -> None:
        """Stop the server when its calls in flight have ended, at the latest after `grace_s` seconds."""


_Named = tuple[str, _TransportServer, ListenAddress]
"""A server with its listen address and its attribute name in `ListenAddresses`."""


@asynccontextmanager
async def running_servers(  # noqa: PLR0913 - optional features of a server
    services: Sequence[Service],
    addresses: ListenAddresses,
    settings: Settings,
    access: AccessControl,
    *,
    host: HostInterceptors = HostInterceptors(),  # noqa: B008 - frozen
    reads: ReadAdmission | None = None,
    meters: Meters | None = None,
    exporter: MetricsExporter | None = None,
    health_check: HealthCheck | None = None,
    tracer: CallTracer | None = None,
) -> AsyncIterator[ListenAddresses]:
    """Serve until the context exits, then drain the calls in flight.

    The context manager yields the bound addresses.

    Args:
        services: the services of the API, without health and reflection.
        addresses: the listen addresses of the servers.
        settings: the settings of limits, deadlines and TLS.
        access: authenticates callers and authorizes calls.
        host: the interceptors and hooks of the host program.
        reads: the admission of expensive reads; None disables admission control.
        meters: counts the calls; None disables the metrics of calls.
        exporter: exports the metrics; None disables the metrics endpoint.
        health_check: a background check that updates the health status.
        tracer: starts the spans of calls; None disables tracing.

    Raises:
        StartupError: HTTP is enabled and `host` has gRPC interceptors.
        ListenAddressError: a port is in use.
        IdentitySettingsError: the TLS files cannot be used.
    """
    if host.grpc and addresses.http is not None:
        raise StartupError(
            "gRPC interceptors do not apply to HTTP calls: use `before_handler` instead, or unset NOMEMORY_HTTP_LISTEN "
            "and NOMEMORY_INSPECTOR"
        )
    timeout_s = settings.timing.default_deadline_s
    pipeline = Pipeline(
        services, access, timeout_s, reads=reads, hooks=host.before_handler, meters=meters, tracer=tracer
    )
    health = ServerHealth(pipeline.service_names)
    named: list[_Named] = [("grpc", GrpcServer(pipeline, health, settings, host.grpc), addresses.grpc)]
    if addresses.http is not None or addresses.metrics is not None:
        from nomemory.server.runtime.wiring.web_servers import make_web_servers  # noqa: PLC0415 - slow to load

        named += make_web_servers(pipeline, health, addresses, settings, access, exporter)
    servers: list[_TransportServer] = []
    bound: dict[str, ListenAddress] = {}
    checks: list[asyncio.Task[None]] = []
    try:
        for name, server, address in named:
            servers.append(server)
            bound[name] = await server.start(address)
        await health.set_serving(is_serving=True)
        if health_check is not None:
            checks.append(asyncio.create_task(health_check(health.set_serving)))
        yield ListenAddresses(**bound)
    finally:
        for check in checks:
            check.cancel()
        await health.shut_down()
        await asyncio.gather(*(server.stop(settings.timing.drain_timeout_s) for server in servers))
