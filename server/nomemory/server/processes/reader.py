"""A process that serves beside the writer's: `python -m … DESCRIPTOR NUMBER`.

It opens the log and the lexical index for reading, and asks the writer's process for what only that has. Whoever
connects to it is asked who they are here, and every request is checked here: what reaches the writer is what the
parts of a server say to each other in one process, too.
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

import structlog
import uvloop

from nomemory.server import app
from nomemory.server.faults import Fault
from nomemory.server.identity.access import Access
from nomemory.server.identity.factory import choose_authenticator
from nomemory.server.lexical.protocol import IndexUnusableError
from nomemory.server.logs import configure_logs
from nomemory.server.processes.pipe_client import PipeClient
from nomemory.server.processes.remote import WriterLine
from nomemory.server.processes.writer_calls import Join, Orders, Serving
from nomemory.server.rpc.grpc_server import serving

_log = structlog.get_logger("workers")


async def serve(pipe: socket.socket, number: int) -> int:
    """Serve until SIGTERM, then drain; returns the exit code. A writer that went away meanwhile has said why itself."""
    line = WriterLine(await PipeClient.connected(pipe, withdraws=True))
    try:
        return await _join(line, number)
    except Fault:
        return 1


async def _join(line: WriterLine, number: int) -> int:
    orders: Orders = await line.ask(Join())
    configure_logs(orders.settings.log_level, number)
    try:
        await _serve_as_told(orders, line)
    except (*app.CANNOT_START, IndexUnusableError) as error:
        _log.error("a worker cannot start", cause=str(error))
        return 1
    return 0


async def _serve_as_told(orders: Orders, line: WriterLine) -> None:
    settings = orders.settings
    access = Access(choose_authenticator(settings), settings.id_max_chars)
    async with AsyncExitStack() as stack:
        services = await app.reader_services(settings, line, orders.embedder, stack)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        own = serving(services, orders.address, settings, access, is_shared=True, host=orders.interceptors())
        await stack.enter_async_context(own)
        app.keep_what_is_loaded()
        line.tell(Serving())
        _log.info("serving", address=str(orders.address))
        await stop.wait()
        _log.info("draining")


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
