"""Finds the local server, or starts it: a process of its own, which outlives whoever started it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Final

from nomemory.agents.home import Home

IDLE_S: Final = 600.0
"""How long a server stays that nobody uses."""
BUSY: Final = 75
"""The exit code of a server that found another one in its place."""
_START_S: Final = 60.0
_POLL_S: Final = 0.02
_LOG_BYTES: Final = 1 << 20
_LAST_LINES: Final = 3


class LocalServerError(Exception):
    """The local server cannot be started; the text says why."""


class LocalServer:
    """The local server, as a program with an event loop uses it: started when it is needed, and again if it is gone.

    Args:
        home: where.
        stack: keeps the home in use until it is closed.
    """

    def __init__(self, home: Home, stack: ExitStack) -> None:
        self._home = home
        self._stack = stack
        self._turn = asyncio.Lock()
        self._is_in_use = False

    async def reach(self) -> None:
        """Return once the server answers.

        Raises:
            LocalServerError: it cannot be started.
        """
        if not (self._is_in_use and answers(self._home)):
            async with self._turn:
                await asyncio.to_thread(self._ensure)

    def _ensure(self) -> None:
        if not self._is_in_use:
            self._stack.enter_context(self._home.in_use())
            self._is_in_use = True
        ensure(self._home)


def ensure(home: Home, idle_s: float = IDLE_S) -> None:
    """Return once a server answers at a home. The caller keeps the home in use from before this until it is done.

    Args:
        home: where.
        idle_s: how long a server that is started here stays when nobody uses it.

    Raises:
        LocalServerError: none can be started.
    """
    if answers(home):
        return
    with home.starting():
        _start(home, idle_s)


def answers(home: Home) -> bool:
    """Return whether a server serves at a home."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(home.hooks))
        except OSError as error:
            if isinstance(error, FileNotFoundError | ConnectionRefusedError | BlockingIOError):
                return False
            raise LocalServerError(f"{home.hooks}: {error.strerror or error}") from None
    return True


def _start(home: Home, idle_s: float) -> None:
    """Start servers until one answers: another may be ending, or may have been started by somebody who is gone."""
    give_up = time.monotonic() + _START_S
    process: subprocess.Popen[bytes] | None = None
    while not answers(home):
        code = BUSY if process is None else process.poll()
        if code == BUSY:
            process = _launched(home, idle_s)
        elif code is not None:
            raise LocalServerError(f"the local server does not start: {_last_words(home)}")
        if time.monotonic() > give_up:
            raise LocalServerError(f"the local server does not answer; see {home.log}")
        time.sleep(_POLL_S)


def _launched(home: Home, idle_s: float) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, so that what ends this process does not end it."""
    is_long = home.log.exists() and home.log.stat().st_size > _LOG_BYTES
    mode = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if is_long else os.O_APPEND)
    with os.fdopen(os.open(home.log, mode, 0o600), "wb") as log:
        return subprocess.Popen(  # noqa: S603 - a command of our own
            [sys.executable, "-P", "-m", "nomemory.agents.serving", str(home.root), str(idle_s)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _last_words(home: Home) -> str:
    lines = home.log.read_text("utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LAST_LINES:])
