"""Finds the local server, or starts it: a process of its own, which outlives whoever started it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from contextlib import ExitStack
from typing import Final

import grpc

from nomemory.agents.hook import start_server
from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.client.errors import NoMemoryError

IDLE_S: Final = 3600.0
"""How long a server stays that nobody uses."""
BUSY: Final = 75
"""The exit code of a server that found another one in its place."""
_START_S: Final = 60.0
_POLL_S: Final = 0.02
_LAST_LINES: Final = 3


class LocalServerError(NoMemoryError):
    """The local server cannot be started; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(grpc.StatusCode.UNAVAILABLE, why)


class LocalServer:
    """The local server, as a program with an event loop uses it: started when it is needed, and again if it is gone.

    The program keeps it in use until it ends.

    Args:
        home: where.
    """

    def __init__(self, home: LocalDataDir) -> None:
        self._home = home
        self._turn = asyncio.Lock()
        self._use = ExitStack()
        self._is_used = False

    async def reach(self) -> None:
        """Return once the server answers.

        Raises:
            LocalServerError: it cannot be started.
        """
        if self._is_used and answers(self._home):
            return
        async with self._turn:
            await asyncio.to_thread(ensure, self._home, self._use)
            self._is_used = True


def ensure(home: LocalDataDir, use: ExitStack, idle_s: float = IDLE_S) -> None:
    """Return once a server answers at a home.

    Args:
        home: where.
        use: keeps the home in use until it is closed.
        idle_s: how long a server that is started here stays when nobody uses it.

    Raises:
        LocalServerError: none can be started.
    """
    use.enter_context(home.in_use())
    with home.starting():
        _start(home, idle_s)


def answers(home: LocalDataDir) -> bool:
    """Return whether a server serves at a home."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(home.hooks))
        except OSError as error:
            if isinstance(error, FileNotFoundError | ConnectionRefusedError | BlockingIOError):
                return False
            raise LocalServerError(f"{home.hooks}: {error.strerror or error}") from None
    return True


def _start(home: LocalDataDir, idle_s: float) -> None:
    """Start servers until one answers: another may be ending, or may have been started by somebody who is gone."""
    give_up = time.monotonic() + _START_S
    process: subprocess.Popen[bytes] | None = None
    while not answers(home):
        code = BUSY if process is None else process.poll()
        if code == BUSY:
            process = start_server(str(home.root), str(idle_s))
        elif code is not None:
            said = home.log.read_text("utf-8", errors="replace").splitlines()
            raise LocalServerError("\n".join(["the local server does not start:", *said[-_LAST_LINES:]]))
        if time.monotonic() > give_up:
            raise LocalServerError(f"the local server does not answer; see {home.log}")
        time.sleep(_POLL_S)
