"""The hook program of coding agents: `python -IS hook.py HOME AGENT USER`.

The program sends the event on standard input to the local server and prints the response. If no server is running, it
writes the event to a file and starts a server. The program runs in every turn, so it imports few modules, reports no
errors to the agent, and exits after at most two seconds.
"""

from __future__ import annotations

import os
import socket
import sys

TYPE_CHECKING = False  # importing typing would double the startup time
if TYPE_CHECKING:
    import subprocess

_TIMEOUT_S = 2.0


def send_event(home: str, agent: str, user: str) -> None:
    """Send the event on standard input to the local server, and print the response."""
    event = f"{agent}\n{user}\n".encode() + sys.stdin.buffer.read()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(f"{home}/hooks")
            connection.sendall(event)
            connection.shutdown(socket.SHUT_WR)
            reply = connection.makefile("rb").read()
    except OSError:
        _queue_event(home, event)
    else:
        sys.stdout.buffer.write(reply)


def _queue_event(home: str, event: bytes) -> None:
    """Write the event to a file for the next server, and start the server."""
    import time  # noqa: PLC0415 - rarely needed

    path = f"{home}/waiting/{time.time_ns()}-{os.getpid()}"
    with open(f"{path}.new", "wb") as file:  # noqa: PTH123 - importing pathlib is slow
        file.write(event)
    os.rename(f"{path}.new", path)  # noqa: PTH104 - as above
    start_server(home)


def start_server(home: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start the local server in its own session, so that signals to this process do not stop it.

    Additional arguments are passed to the server.
    """
    import subprocess  # noqa: PLC0415 - as above

    command = [sys.executable, "-P", "-m", "nomemory.agents.local_server_main", home, *arguments]
    with open(f"{home}/server.log", "ab") as log:  # noqa: PTH123 - as above
        null = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=null, stdout=log, stderr=log, cwd=home, start_new_session=True)  # noqa: S603 - our own


if __name__ == "__main__":
    try:
        send_event(*sys.argv[1:4])
    except OSError:
        sys.exit(0)  # the directory is not writable, so the error cannot be reported
