"""The lifecycle of a server process: startup, serving, draining and shutdown."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import uvloop

from nomemory.server.api.host_interceptors import HostInterceptors
from nomemory.server.api.identity.access import AccessControl
from nomemory.server.api.identity.factory import make_authenticator
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.listen_address import ListenAddresses
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.secure_files import UMASK
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.stderr import reserve_stderr_for_logs
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.runtime.tracing.provider import start_tracing
from nomemory.server.runtime.wiring.endpoints import parse_listen_addresses
from nomemory.server.runtime.wiring.garbage_collection import freeze_heap
from nomemory.server.runtime.wiring.log_health import log_health_check
from nomemory.server.runtime.wiring.log_store import choose_log_store
from nomemory.server.runtime.wiring.server_metrics import ServerMetrics
from nomemory.server.runtime.wiring.services import make_recall_only_services, make_services
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.server.runtime.wiring.wiring import build_components
from nomemory.server.store.consistency import ensure_no_loss

_SWITCH_INTERVAL_S: Final = 0.0002
"""Switch interval of the GIL. It limits how long a ranking thread blocks the event loop."""

_NO_INTERCEPTORS: Final = HostInterceptors()

_log = get_logger("server")


def serve(
    settings: Settings,
    ready: Callable[[ListenAddresses], None] = lambda _addresses: None,
    interceptors: HostInterceptors = _NO_INTERCEPTORS,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. While the server runs, stderr contains only log records.

    Args:
        settings: the settings of this server.
        ready: called with the bound addresses as soon as the server accepts calls.
        interceptors: the interceptors and hooks of the host program.

    Raises:
        StartupError: the server cannot start; the message states the reason for the operator.
        OSError: a file or socket cannot be opened.
    """
    os.umask(UMASK)
    with reserve_stderr_for_logs(settings.server.log_level):
        configure_logs(settings.server.log_level)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        uvloop.run(_serve_until_signal(settings, ready, interceptors))


async def _serve_until_signal(
    settings: Settings, ready: Callable[[ListenAddresses], None], interceptors: HostInterceptors
) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with running_server(settings, interceptors) as addresses:
        http = {"http": str(addresses.http)} if addresses.http else {}
        _log.info("serving", address=str(addresses), **http, data=str(settings.server.data))
        freeze_heap()
        ready(addresses)
        await stop.wait()
        _log.info("draining")
    _log.info("stopped")


@asynccontextmanager
async def running_server(
    settings: Settings, interceptors: HostInterceptors = _NO_INTERCEPTORS
) -> AsyncIterator[ListenAddresses]:
    """Run a server until the context exits, and yield its bound addresses.

    Args:
        settings: the settings of this server.
        interceptors: the interceptors and hooks of the host program.

    Raises:
        StartupError: the server cannot start; the message states the reason for the operator.
        OSError: a file or socket cannot be opened.
    """
    addresses = parse_listen_addresses(settings)
    access = AccessControl(make_authenticator(settings))
    meters, faults = Meters(), ActiveFaults()
    async with AsyncExitStack() as stack:
        tracer = start_tracing(settings, stack)
        if settings.recall.upstream:
            services, reads = make_recall_only_services(settings, meters, faults, stack), None
            exporter, health_check = ServerMetrics(meters, faults), None
        else:
            directory = DataDirectory.from_settings(settings)
            stack.enter_context(directory.lock())
            directory.check_disk_space(settings.server.min_free_disk_bytes)
            ensure_no_loss(directory, choose_log_store(settings, directory).read_position)
            parts = await build_components(settings, directory, faults, meters, stack)
            services, reads = await make_services(settings, directory, parts, meters, stack)
            exporter = ServerMetrics(meters, faults, parts.report)
            health_check = log_health_check(settings, directory, faults, stack)
        yield await stack.enter_async_context(
            running_servers(
                services,
                addresses,
                settings,
                access,
                host=interceptors,
                reads=reads,
                meters=meters,
                exporter=exporter,
                health_check=health_check,
                tracer=tracer,
            )
        )
