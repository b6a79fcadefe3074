"""The worker's end of the connection to the server. Its methods block."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from multiprocessing.connection import Connection
from typing import Any, Final

from nomemory.server.runtime.processes.ipc_protocol import Call, Cancel, Heartbeat, Notification, Reply, StartupReport
from nomemory.server.runtime.stderr import report_crashes

_ORPHAN_GRACE_S: Final = 20.0
"""Time that a worker has to finish its work after the server exits, in seconds."""


class WorkerPipe:
    """Receives calls from the server and sends replies.

    A worker ignores SIGINT and SIGTERM and exits when its connection is closed. If the server is killed, the next
    `receive_calls` raises EOFError. If a call hangs after the server has exited, the worker exits after a grace period.

    Args:
        descriptor: the file descriptor of the socket that the server passes to the worker.
    """

    def __init__(self, descriptor: int) -> None:
        report_crashes()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._connection = Connection(descriptor)
        self._sending = threading.Lock()
        self._calls: dict[int, Call] = {}
        threading.Thread(target=_exit_as_orphan, args=(os.dup(descriptor),), name="orphan-exit", daemon=True).start()

    def report_ready(self) -> None:
        """Report readiness."""
        self._send_message(StartupReport())

    def report_startup_error(self, error: str) -> None:
        """Report a startup error, whose text is shown to the operator."""
        self._send_message(StartupReport(error))

    def receive_call(self) -> Call:
        """Wait until a call is pending, and return the oldest one. The server can still cancel later calls.

        Raises:
            EOFError: the server has exited.
        """
        self._handle_received(wait=True)
        return self._calls.pop(next(iter(self._calls)))

    def receive_calls(self, *, wait: bool) -> list[Call]:
        """Return all pending calls. If `wait` is true, block until there is at least one call.

        Raises:
            EOFError: the server has exited.
        """
        self._handle_received(wait=wait)
        calls, self._calls = list(self._calls.values()), {}
        return calls

    def reply(self, call_id: int, value: object) -> None:
        """Reply to a call. Thread-safe."""
        self._send_message(Reply(call_id, value))

    def reply_error(self, call_id: int, error: str) -> None:
        """Reply to a call with an error, whose text must not contain message content."""
        self._send_message(Reply(call_id, error=error))

    def notify(self, body: object) -> None:
        """Send a notification to the server. Thread-safe."""
        self._send_message(Notification(body))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _handle_received(self, *, wait: bool) -> None:
        """Handle all received messages. If `wait` is true, block until there is a call."""
        while (wait and not self._calls) or self._connection.poll(0):
            self._handle_message(self._receive_message())

    def _handle_message(self, message: object) -> None:
        match message:
            case Call(call_id):
                self._calls[call_id] = message
            case Cancel(call_id):
                self._calls.pop(call_id, None)
            case Heartbeat(call_id):
                self.reply(call_id, None)

    def _receive_message(self) -> Any:  # noqa: ANN401 - one of the messages of `ipc_protocol`
        try:
            return self._connection.recv()
        except OSError as error:  # the server was killed while it was sending
            raise EOFError from error

    def _send_message(self, message: Reply | StartupReport | Notification) -> None:
        with self._sending:
            self._connection.send(message)


def _exit_as_orphan(descriptor: int) -> None:
    """Wait until the server closes its end or is killed, and exit after a grace period."""
    poll = select.poll()
    poll.register(descriptor, 0)  # POLLHUP is always reported
    poll.poll()
    time.sleep(_ORPHAN_GRACE_S)
    os._exit(1)
