"""A process that serves beside the writer's: `python -m … DESCRIPTOR NUMBER`.

It opens the log and the lexical index for reading, and calls the writer's process for what only that has. Callers are
identified here, and every request is checked here: what reaches the writer is what the parts of a server say to each
other in one process, too.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import threading
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, cast

import uvloop

from nomemory.server.admission.read_threads import ReadThreads
from nomemory.server.cannot_start import CannotStartError
from nomemory.server.composition.log_store import log_store
from nomemory.server.composition.log_watch import watch_of
from nomemory.server.composition.services import make_services
from nomemory.server.composition.serving import freeze_heap, make_access, serving
from nomemory.server.data_directory import DataDirectory
from nomemory.server.faults import Fault
from nomemory.server.lexical.protocol import IndexUnusableError
from nomemory.server.lexical.tantivy.reader import TantivyLexicalIndex
from nomemory.server.log.damage import Damage, LogDamage
from nomemory.server.log.protocol import LogWriter
from nomemory.server.logs import configure_logs
from nomemory.server.metrics.meters import Meters
from nomemory.server.metrics.text import Exposition
from nomemory.server.processes.connection import PipeConnection
from nomemory.server.readers.calls import Ask, Assignment, GetSamples, SpaceDescription
from nomemory.server.readers.readers import reader_name
from nomemory.server.readers.remote import FollowedSpace, RemotePart, WriterClient, remote_space
from nomemory.server.readers.writer_services import WriterServices
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.index_status import Report
from nomemory.server.structured_logs import get_logger
from nomemory.server.tracing.provider import start_tracing

_SEARCH_THREADS: Final = 4
"""Number of threads for long lexical searches."""

_log = get_logger("workers")


async def serve(pipe: socket.socket, number: int) -> int:
    """Serve until SIGTERM, then drain; return the exit code. If the writer is gone, it has logged why."""
    followed, meters = FollowedSpace(), Meters(reader_name(number))

    async def answer(request: GetSamples | SpaceDescription) -> object:
        if isinstance(request, GetSamples):
            return meters.samples()
        await followed.answer(request)
        return None

    writer = WriterClient(await PipeConnection(answer).over(pipe))
    try:
        assignment: Assignment = await writer.assignment()
        configure_logs(assignment.settings.server.log_level, number)
        await _serve_assigned(assignment, writer, followed, meters)
    except (CannotStartError, IndexUnusableError) as error:
        _log.error("a worker cannot start", cause=str(error))
        return 1
    except Fault:
        return 1
    return 0


async def _serve_assigned(
    assignment: Assignment, writer: WriterClient, followed: FollowedSpace, meters: Meters
) -> None:
    settings = assignment.settings
    async with AsyncExitStack() as stack:
        tracer = start_tracing(settings, meters.process, stack)
        services = await _make_services(assignment, writer, followed, meters, stack)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        own = serving(
            services,
            assignment.addresses,
            settings,
            make_access(settings),
            is_shared=True,
            host=assignment.interceptors(),
            meters=meters,
            exposition=cast("Exposition", RemotePart(writer, "exposition")),
            watch=watch_of(settings, DataDirectory.of(settings), stack),
            tracer=tracer,
        )
        await stack.enter_async_context(own)
        freeze_heap()
        writer.ready()
        _log.info("serving", address=str(assignment.addresses))
        await stop.wait()
        _log.info("draining")


async def _make_services(
    assignment: Assignment, writer: WriterClient, followed: FollowedSpace, meters: Meters, stack: AsyncExitStack
) -> list[Service]:
    """Build what a reader serves: everything, with remote parts where only the writer's process has them."""
    settings, directory = assignment.settings, DataDirectory.of(assignment.settings)
    store = log_store(settings, directory)
    stack.push_async_callback(followed.close)
    make = partial(remote_space, settings, writer, meters, store.shared_index)
    spaces = followed.begin(make, assignment.space, settings.timing.deadline_default_s)
    log, report = (RemotePart(writer, part) for part in ("log", "report"))
    remote = WriterServices(cast("LogWriter", log), spaces, cast("Report", report))
    damage = _told_damage(writer)
    words = store.words(damage, stack)
    if words is None:
        threads = ReadThreads(_SEARCH_THREADS)
        stack.push_async_callback(threads.close)
        words = TantivyLexicalIndex(directory.lexical, threads)
        stack.push_async_callback(words.close)
    return await make_services(settings, directory, remote, words, stack, damage, meters)


def _told_damage(writer: WriterClient) -> LogDamage:
    """Make what the writer is told of. Reads have threads of their own."""
    loop = asyncio.get_running_loop()

    def tell(met: Damage) -> None:
        loop.call_soon_threadsafe(writer.notify, Ask("report", "note_damage", (met,)))

    return LogDamage(tell)


def _end_with_the_writer(pipe: socket.socket) -> None:
    """End this process at once when the writer's is gone, whatever the event loop is doing."""
    watched = os.dup(pipe.fileno())

    def watch() -> None:
        poll = select.poll()
        poll.register(watched, 0)  # whatever is asked for, POLLHUP is told
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, name="writer-watch", daemon=True).start()


def main(descriptor: int, number: int) -> int:
    """Serve as long as there is a writer and no SIGTERM. SIGINT is for the writer, who tells the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = socket.socket(fileno=descriptor)
    _end_with_the_writer(pipe)
    return uvloop.run(serve(pipe, number))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
