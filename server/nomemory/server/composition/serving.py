"""Serves the services of one process: over gRPC, and over HTTP where the settings say so.

The addresses that a server listens on, and who may call.

Keeps the garbage collector away from what a process has loaded.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from nomemory.server.admission.read_admission import ReadAdmission
from nomemory.server.api.grpc.server import GrpcServer
from nomemory.server.api.health import ServerHealth
from nomemory.server.api.host_interceptors import HostInterceptors
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import Service
from nomemory.server.cannot_start import CannotStartError
from nomemory.server.composition.log_watch import Watch
from nomemory.server.identity.access import Access
from nomemory.server.identity.factory import checks_credentials, choose_authenticator, refuse_half_configuration
from nomemory.server.identity.tls import tls_files
from nomemory.server.listen_address import (
    Addresses,
    ListenAddress,
    Protection,
    http_address,
    parse_listen_address,
    refuse_exposure,
)
from nomemory.server.metrics.meters import Meters
from nomemory.server.metrics.text import Exposition
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
async def serving(  # noqa: PLR0913 - what goes around the calls of a process
    services: Sequence[Service],
    addresses: Addresses,
    settings: Settings,
    access: Access,
    *,
    is_shared: bool = False,
    host: HostInterceptors = HostInterceptors(),  # noqa: B008 - frozen
    reads: ReadAdmission | None = None,
    meters: Meters | None = None,
    exposition: Exposition | None = None,
    watch: Watch | None = None,
    tracer: CallTracer | None = None,
) -> AsyncIterator[Addresses]:
    """Serve until the context is left, then let calls in flight finish. Return the addresses that were bound.

    Args:
        services: what is served, beside health and reflection.
        addresses: where; port 0 picks a free one.
        settings: limits, deadlines, TLS.
        access: decides who may call what.
        is_shared: other processes serve at the same addresses. Somebody has to hold them for all of them.
        host: interceptors of the embedding program.
        reads: limits the expensive reads; None: nothing does.
        meters: what counts; None: nothing does.
        exposition: answers scrapes; None: nothing does.
        watch: finds out, while the services serve, whether they can.
        tracer: begins the spans of calls; None: there are none.

    Raises:
        CannotStartError: HTTP is served, and `host` has gRPC interceptors.
        ListenAddressError: a port is taken.
        IdentitySettingsError: the files for TLS cannot be used.
    """
    if host.grpc and addresses.http is not None:
        raise CannotStartError(
            "gRPC interceptors do not see calls over HTTP: pass functions in `before_handler` instead, or do not set "
            "NOMEMORY_HTTP and NOMEMORY_INSPECT"
        )
    timeout_s = settings.timing.deadline_default_s
    pipeline = Pipeline(
        services, access, timeout_s, reads=reads, hooks=host.before_handler, meters=meters, tracer=tracer
    )
    health = ServerHealth(pipeline.service_names)
    grpc_server = GrpcServer(pipeline, health, settings, host.grpc, is_shared=is_shared)
    made: list[_Named] = [("grpc", grpc_server, addresses.grpc)]
    if addresses.http is not None or addresses.metrics is not None:
        from nomemory.server.composition.web_servers import web_servers  # noqa: PLC0415 - see there

        made += web_servers(pipeline, health, addresses, settings, access, exposition)
    servers: list[_Server] = []
    bound: dict[str, ListenAddress] = {}
    watching: list[asyncio.Task[None]] = []
    try:
        for name, server, address in made:
            servers.append(server)
            bound[name] = await server.start(address)
        await health.set_serving(is_serving=True)
        if watch is not None:
            watching.append(asyncio.create_task(watch(health.set_serving)))
        yield Addresses(**bound)
    finally:
        for task in watching:
            task.cancel()
        await health.shut_down()
        await asyncio.gather(*(server.stop(settings.timing.drain_s) for server in servers))


def make_access(settings: Settings) -> Access:
    """Make the access control of a server.

    Raises:
        IdentitySettingsError: the settings contradict each other, or name files that cannot be used.
    """
    return Access(choose_authenticator(settings), settings.limits.id_max_chars)


def listen_addresses(settings: Settings) -> Addresses:
    """Return the addresses to serve on.

    Raises:
        ListenAddressError: one is not of the form HOST:PORT, or would open an unprotected server to other machines.
        IdentitySettingsError: half of a kind of credentials is configured.
    """
    refuse_half_configuration(settings)
    http = _address(address, settings) if (address := http_address(settings)) else None
    metrics = _address(settings.metrics.listen, settings) if settings.metrics.listen else None
    return Addresses(_address(settings.server.listen, settings), http, metrics)


def _address(text: str, settings: Settings) -> ListenAddress:
    address = parse_listen_address(text)
    credentials, tls = checks_credentials(settings), tls_files(settings) is not None
    refuse_exposure(address, Protection(credentials, tls, settings.identity.insecure_plaintext))
    return address


@contextmanager
def loading() -> Iterator[None]:
    """Do without garbage collection while modules are imported, which stay: to walk them takes a sixth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def freeze_heap() -> None:
    """Exempt all present objects from garbage collection. Walking them would stop every call for 20 to 60 ms."""
    gc.collect()
    gc.freeze()
