"""The server process, from its start to its end."""

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
from nomemory.server.api.identity.access import Access
from nomemory.server.api.identity.factory import choose_authenticator
from nomemory.server.runtime.active_faults import StandingFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.listen_address import Addresses
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.secure_files import UMASK
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.stderr import only_the_log
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.runtime.tracing.provider import start_tracing
from nomemory.server.runtime.wiring.endpoints import listen_addresses
from nomemory.server.runtime.wiring.garbage_collection import freeze_heap
from nomemory.server.runtime.wiring.log_health import log_health_check
from nomemory.server.runtime.wiring.log_store import log_store
from nomemory.server.runtime.wiring.server_metrics import ServerMetrics
from nomemory.server.runtime.wiring.services import make_services, recall_only_services
from nomemory.server.runtime.wiring.serving import serving
from nomemory.server.runtime.wiring.wiring import build_parts
from nomemory.server.store.consistency import refuse_loss

_SWITCH_INTERVAL_S: Final = 0.0002
"""Switch interval of the interpreter's lock: how long a thread that ranks keeps it from the event loop."""

_NO_INTERCEPTORS: Final = HostInterceptors()

_log = get_logger("server")


def serve(
    settings: Settings,
    ready: Callable[[Addresses], None] = lambda _addresses: None,
    interceptors: HostInterceptors = _NO_INTERCEPTORS,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Meanwhile nothing but the log is written to standard error.

    Args:
        settings: the configuration.
        ready: called with the bound addresses once calls are answered.
        interceptors: functions of the embedding program, which run around the calls.

    Raises:
        CannotStartError: the server cannot start; the text says why and what to do.
        OSError: the system refuses something; it names the file.
    """
    os.umask(UMASK)
    with only_the_log(settings.server.log_level):
        configure_logs(settings.server.log_level)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        uvloop.run(_serve(settings, ready, interceptors))


async def _serve(settings: Settings, ready: Callable[[Addresses], None], interceptors: HostInterceptors) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with running(settings, interceptors) as addresses:
        http = {"http": str(addresses.http)} if addresses.http else {}
        _log.info("serving", address=str(addresses), **http, data=str(settings.server.data))
        freeze_heap()
        ready(addresses)
        await stop.wait()
        _log.info("draining")
    _log.info("stopped")


@asynccontextmanager
async def running(settings: Settings, interceptors: HostInterceptors = _NO_INTERCEPTORS) -> AsyncIterator[Addresses]:
    """Run a server until the context is left; return the addresses that were bound.

    Args:
        settings: the configuration.
        interceptors: functions of the embedding program, which run around the calls.

    Raises:
        CannotStartError: the server cannot start; the text says why and what to do.
        OSError: the system refuses something; it names the file.
    """
    addresses = listen_addresses(settings)
    access = Access(choose_authenticator(settings))
    meters, faults = Meters(), StandingFaults()
    async with AsyncExitStack() as stack:
        tracer = start_tracing(settings, stack)
        if settings.recall.upstream:
            services, reads = recall_only_services(settings, meters, stack), None
            exporter, health_check = ServerMetrics(meters, faults), None
        else:
            directory = DataDirectory.of(settings)
            stack.enter_context(directory.taken())
            directory.refuse_full_disk(settings.server.min_free_disk_bytes)
            refuse_loss(directory, log_store(settings, directory).position)
            parts = await build_parts(settings, directory, faults, meters, stack)
            services, reads = await make_services(settings, directory, parts, meters, stack)
            exporter = ServerMetrics(meters, faults, parts.report)
            health_check = log_health_check(settings, directory, faults, stack)
        yield await stack.enter_async_context(
            serving(
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
