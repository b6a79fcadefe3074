"""Worker processes that run a test program."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nomemory.server.runtime.processes.ipc_connection import OnNotification, PipeConnection, ignore_notification

BEGIN = """
import sys, time
from nomemory.server.runtime.processes.ipc_worker import WorkerPipe
pipe = WorkerPipe(int(sys.argv[1]))
pipe.report_ready()
"""


def spawned(program: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a program with the descriptor of its socket; return it and the other end."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-c", program, str(theirs.fileno())]
        return subprocess.Popen(command, pass_fds=[theirs.fileno()]), ours


@asynccontextmanager
async def worker(
    program: str, on_notification: OnNotification = ignore_notification
) -> AsyncIterator[tuple[subprocess.Popen[bytes], PipeConnection]]:
    """Run a program that takes calls until the context is left."""
    process, ours = spawned(program)
    pipe = await PipeConnection.open(ours, on_notification)
    try:
        await asyncio.wait_for(pipe.wait_until_ready(), 60)
        yield process, pipe
    finally:
        pipe.close()
        process.kill()
        process.wait()
