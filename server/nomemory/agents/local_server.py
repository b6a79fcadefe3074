"""Access to the local server, a background process that is started on demand."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Final

import grpc

from nomemory.agents.hook import start_server
from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.client.errors import NoMemoryError

IDLE_S: Final = 3600.0
"""Idle time after which the server exits."""
BUSY: Final = 75
"""Exit status if another server is already running."""
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.02
_SHOWN_LOG_LINES: Final = 3
_SOL_LOCAL: Final = 0
_LOCAL_PEERPID: Final = 2
"""The socket option of macOS for the process id of the peer (sys/un.h), which the module `socket` does not define."""


class LocalServerError(NoMemoryError):
    """Raised if the local server cannot be started or stopped."""

    def __init__(self, message: str) -> None:
        super().__init__(grpc.StatusCode.UNAVAILABLE, message)


class LocalServer:
    """Async access to the local server, which is started or restarted on demand."""

    def __init__(self, home: LocalDataDir) -> None:
        self._home = home
        self._starting = asyncio.Lock()
        self._usage_lock = ExitStack()
        self._is_used = False

    async def ensure_running(self) -> None:
        """Start the local server if necessary, and wait until it is available.

        Raises:
            LocalServerError: the server cannot be started.
        """
        if self._is_used and is_running(self._home):
            return
        async with self._starting:
            await asyncio.to_thread(ensure_running, self._home, self._usage_lock)
            self._is_used = True


def ensure_running(home: LocalDataDir, use: ExitStack, idle_s: float = IDLE_S) -> None:
    """Start the local server if necessary, and wait until it is available.

    Args:
        home: the local data directory.
        use: the exit stack that holds the usage lock; the server keeps running until the stack is closed.
        idle_s: the idle timeout of a newly started server.

    Raises:
        LocalServerError: the server cannot be started.
    """
    use.enter_context(home.hold_usage_lock())
    with home.hold_start_lock():
        _start_until_available(home, idle_s)


def is_running(home: LocalDataDir) -> bool:
    """Return whether a local server is running."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(home.hooks))
        except OSError as error:
            if isinstance(error, FileNotFoundError | ConnectionRefusedError | BlockingIOError):
                return False
            raise LocalServerError(f"{home.hooks}: {error.strerror or error}") from None
    return True


def stop_if_unused(home: LocalDataDir) -> bool:
    """Stop the local server, unless an agent or a command is using it; return False if it is in use.

    Raises:
        LocalServerError: the server does not stop.
    """
    with home.open_usage_lock() as usage_lock:
        try:
            fcntl.flock(usage_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # new clients wait until the file is closed
        except BlockingIOError:
            return False
        if is_running(home):
            os.kill(_read_server_pid(home), signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while is_running(home):
            if time.monotonic() > deadline:
                raise LocalServerError(f"the local server did not stop within {_STOP_TIMEOUT_S:g} s; see {home.log}")
            time.sleep(_POLL_S)
    return True


def _read_server_pid(home: LocalDataDir) -> int:
    """Return the process id of the server, which is the peer of the hook socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(home.hooks))
        if sys.platform == "darwin":
            return int.from_bytes(
                connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, struct.calcsize("i")), sys.byteorder
            )
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _user, _group = struct.unpack("3i", credentials)
    return int(pid)


def _start_until_available(home: LocalDataDir, idle_s: float) -> None:
    """Start the server and wait until it is available; retry while a previous server is shutting down."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    process: subprocess.Popen[bytes] | None = None
    while not is_running(home):
        code = BUSY if process is None else process.poll()
        if code == BUSY:
            process = start_server(str(home.root), str(idle_s))
        elif code is not None:
            lines = home.log.read_text("utf-8", errors="replace").splitlines()
            raise LocalServerError("\n".join(["the local server failed to start:", *lines[-_SHOWN_LOG_LINES:]]))
        if time.monotonic() > deadline:
            raise LocalServerError(f"the local server did not start within {_START_TIMEOUT_S:g} s; see {home.log}")
        time.sleep(_POLL_S)
