"""`python hook.py HOME AGENT USER`: what a coding agent's hooks call.

It runs at every turn, so it imports next to nothing, and is to run with `python -IS`. It hands the event on standard
input to the local server, and prints what that says. Where no server is there, it starts one and leaves the event in
a file. Whatever goes wrong, the agent is told nothing, and waits no longer than two seconds.
"""

from __future__ import annotations

import os
import socket
import sys

TYPE_CHECKING = False  # typing takes as long as everything here
if TYPE_CHECKING:
    import subprocess

_PATIENCE_S = 2.0
_LOG_BYTES = 1 << 20


def run(home: str, agent: str, user: str) -> None:
    """Hand the event over.

    Args:
        home: the directory of the memory.
        agent: whose event it is.
        user: whose memory it is.
    """
    event = f"{agent}\n{user}\n".encode() + sys.stdin.buffer.read()
    try:
        reply = _handed(f"{home}/hooks", event)
    except OSError:
        _leave(home, event)
        return
    sys.stdout.buffer.write(reply)


def _handed(address: str, event: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE_S)
        connection.connect(address)
        connection.sendall(event)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while part := connection.recv(65_536):
            received += part
        return received


def _leave(home: str, event: bytes) -> None:
    """Put the event where the next server finds it, and start that."""
    import time  # noqa: PLC0415 - rarely needed

    place = f"{home}/waiting/{time.time_ns()}-{os.getpid()}"
    descriptor = os.open(f"{place}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(event)
    os.rename(f"{place}.new", place)  # noqa: PTH104 - pathlib takes as long as everything here
    start_server(home)


def start_server(home: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, so that what ends this process does not end it.

    Args:
        home: where.
        arguments: further ones of the server's.
    """
    import subprocess  # noqa: PLC0415 - as above

    log = f"{home}/server.log"
    is_long = os.path.exists(log) and os.path.getsize(log) > _LOG_BYTES  # noqa: PTH110, PTH202 - as above
    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if is_long else 0)
    with os.fdopen(os.open(log, mode, 0o600), "wb") as file:
        return subprocess.Popen(  # noqa: S603 - a command of our own
            [sys.executable, "-P", "-m", "nomemory.agents.serving", home, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=home,
            start_new_session=True,
        )


if __name__ == "__main__":
    try:
        run(*sys.argv[1:4])
    except OSError:
        sys.exit(0)  # there is no place to tell it: the home cannot be written
