"""A server, from start to end. `composition/` puts its parts together."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import uvloop

from nomemory.server.composition.log_store import log_store
from nomemory.server.composition.log_watch import watch_of
from nomemory.server.composition.server_metrics import ServerMetrics
from nomemory.server.composition.services import make_services, recall_only_services
from nomemory.server.composition.serving import freeze_heap, listen_addresses, make_access, serving
from nomemory.server.composition.writer import WriterAssembly
from nomemory.server.data_directory import DataDirectory
from nomemory.server.listen_address import Addresses
from nomemory.server.logs import configure_logs
from nomemory.server.maintenance.loss import refuse_loss
from nomemory.server.metrics.meters import Meters
from nomemory.server.private_files import UMASK
from nomemory.server.processes.launch import Started
from nomemory.server.processes.reserved_port import reserved
from nomemory.server.readers.calls import Assignment, SpaceDescription
from nomemory.server.readers.readers import Readers
from nomemory.server.rpc.host_interceptors import MakeInterceptors, no_interceptors
from nomemory.server.settings import Settings
from nomemory.server.standard_error import only_the_log
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.structured_logs import get_logger
from nomemory.server.tracing.provider import start_tracing
from nomemory.server.vector.collection import collection_named
from nomemory.server.vector.space import VectorSpace

_WRITER = 0
"""The number of the writer's process in logs; readers count from 1."""

_SWITCH_S = 0.0002
"""Switch interval of the interpreter's lock, in seconds: how long a thread that ranks keeps it from the event loop."""

_NO_READERS: Mapping[int, Started] = MappingProxyType({})

_log = get_logger("server")


def serve(
    settings: Settings,
    ready: Callable[[Addresses], None] = lambda _address: None,
    readers: Mapping[int, Started] = _NO_READERS,
    interceptors: MakeInterceptors = no_interceptors,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Meanwhile standard error has nothing but the log.

    Args:
        settings: the configuration.
        ready: called with the bound addresses once calls are answered.
        readers: what `start_readers` has started; without them they are started here.
        interceptors: makes a host's own gRPC interceptors, in each process that serves. With several workers it has to
            be a function of a module that they can import.

    Raises:
        CannotStartError: why it cannot be started.
        OSError: the system refuses something; it names the file.
    """
    os.umask(UMASK)
    with only_the_log(settings.server.log_level):
        configure_logs(settings.server.log_level, None if settings.workers.count == 1 else _WRITER)
        sys.setswitchinterval(_SWITCH_S)
        uvloop.run(_serve(settings, ready, readers, interceptors))


async def _serve(
    settings: Settings,
    ready: Callable[[Addresses], None],
    readers: Mapping[int, Started],
    interceptors: MakeInterceptors,
) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with running(settings, readers, interceptors) as addresses:
        where = {"http": str(addresses.http)} if addresses.http else {}
        _log.info("serving", address=str(addresses), **where, data=str(settings.server.data))
        freeze_heap()
        ready(addresses)
        await stop.wait()
        _log.info("draining")
    _log.info("stopped")


@asynccontextmanager
async def running(
    settings: Settings,
    readers: Mapping[int, Started] = _NO_READERS,
    interceptors: MakeInterceptors = no_interceptors,
) -> AsyncIterator[Addresses]:
    """Run a server until the context is left; return the addresses that were bound. The arguments are those of `serve`.

    Raises:
        as `serve`.
    """
    addresses, access = listen_addresses(settings), make_access(settings)
    async with AsyncExitStack() as stack:
        meters, faults = Meters(), StandingFaults()
        tracer = start_tracing(settings, meters.process, stack)
        own = partial(serving, settings=settings, access=access, host=interceptors(), meters=meters, tracer=tracer)
        if settings.recall.query_target:
            services = recall_only_services(settings, stack, meters)
            yield await stack.enter_async_context(own(services, addresses, exposition=ServerMetrics(meters, faults)))
        else:
            beside = Readers(settings, readers, faults, meters.roster, tracer)
            assign = partial(Assignment, settings, interceptors=interceptors)
            yield await _serve_data(settings, addresses, own, assign, beside, meters, faults, stack)


async def _serve_data(
    settings: Settings,
    addresses: Addresses,
    own: Callable[..., AbstractAsyncContextManager[Addresses]],
    assign: Callable[..., Assignment],
    readers: Readers,
    meters: Meters,
    faults: StandingFaults,
    stack: AsyncExitStack,
) -> Addresses:
    """Serve a data directory here, and in readers at the same addresses that write through this process.

    Args:
        settings: the configuration.
        addresses: where to serve.
        own: makes what serves in this process.
        assign: makes what readers are told to serve.
        readers: the processes beside this one; there may be none.
        meters: what counts in this process.
        faults: what stands.
        stack: takes everything down.
    """
    directory, is_shared = DataDirectory.of(settings), settings.workers.count > 1
    stack.enter_context(directory.taken())
    directory.refuse_full_disk(settings.server.free_bytes_min)
    refuse_loss(directory, log_store(settings, directory).position)
    shared = _reserved(addresses, stack) if is_shared else addresses
    stack.push_async_callback(readers.close)
    await readers.start()

    def describe(space: VectorSpace) -> SpaceDescription:
        return SpaceDescription.of(space, collection_named(settings, directory.vectors, space.name).backlog)

    async def announce(space: VectorSpace) -> None:
        await readers.replace_space(describe(space))

    writer, words, damage = await WriterAssembly(settings, directory, faults, stack, announce, meters).build()
    services = await make_services(settings, directory, writer, words, stack, damage, meters)
    exposition = ServerMetrics(meters, faults, partial(readers.samples, settings.metrics.collect_s), writer.report)
    stack.push_async_callback(readers.close)  # before the parts that they call are taken down
    readers.assign(assign(shared, describe(writer.spaces.now)), replace(writer, exposition=exposition))
    here, watch = replace(shared, metrics=addresses.metrics), watch_of(settings, directory, stack, faults)
    serves = own(services, here, is_shared=is_shared, exposition=exposition, watch=watch)
    bound = await stack.enter_async_context(serves)
    await readers.all_serve()
    stack.callback(readers.drain)  # while this process drains
    return bound


def _reserved(addresses: Addresses, stack: AsyncExitStack) -> Addresses:
    """Hold the addresses at which several processes serve."""
    http = stack.enter_context(reserved(addresses.http)) if addresses.http else None
    return Addresses(stack.enter_context(reserved(addresses.grpc)), http)
