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


def run(home: str, agent: str, user: str) -> None:
    """Hand the event over.

    Args:
        home: the directory of the memory.
        agent: whose event it is.
        user: whose memory it is.
    """
    event = f"{agent}\n{user}\n".encode() + sys.stdin.buffer.read()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.connect(f"{home}/hooks")
            connection.sendall(event)
            connection.shutdown(socket.SHUT_WR)
            reply = connection.makefile("rb").read()
    except OSError:
        _leave(home, event)
    else:
        sys.stdout.buffer.write(reply)


def _leave(home: str, event: bytes) -> None:
    """Put the event where the next server finds it, and start that."""
    import time  # noqa: PLC0415 - rarely needed

    place = f"{home}/waiting/{time.time_ns()}-{os.getpid()}"
    with open(f"{place}.new", "wb") as file:  # noqa: PTH123 - pathlib takes as long as everything here
        file.write(event)
    os.rename(f"{place}.new", place)  # noqa: PTH104 - as above
    start_server(home)


def start_server(home: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, so that what ends this process does not end it.

    Args:
        home: where.
        arguments: further ones of the server's.
    """
    import subprocess  # noqa: PLC0415 - as above

    command = [sys.executable, "-P", "-m", "nomemory.agents.local_server_main", home, *arguments]
    with open(f"{home}/server.log", "ab") as log:  # noqa: PTH123 - as above
        null = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=null, stdout=log, stderr=log, cwd=home, start_new_session=True)  # noqa: S603 - our own


if __name__ == "__main__":
    try:
        run(*sys.argv[1:4])
    except OSError:
        sys.exit(0)  # there is no place to tell it: the home cannot be written
