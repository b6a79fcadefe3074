"""The worker's end of the connection to the server. Its methods block."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from multiprocessing.connection import Connection
from typing import Any, Final

from nomemory.server.runtime.processes.ipc_protocol import Call, Cancel, Heartbeat, Notification, Reply, Started
from nomemory.server.runtime.stderr import report_crashes

_ORPHAN_GRACE_S: Final = 20.0
"""Time that a worker has to finish its work after the server exits, in seconds."""


class WorkerPipe:
    """Receives calls and sends replies.

    A worker ignores SIGINT and SIGTERM and exits when its connection is closed. If the server is killed, the next
    `receive_calls` raises EOFError. A worker whose work hangs is terminated after a grace period.

    Args:
        descriptor: the file descriptor of the socket, passed by the server.
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
        self._send_message(Started())

    def report_startup_error(self, error: str) -> None:
        """Report a startup error. The operator sees the text of the error."""
        self._send_message(Started(error))

    def receive_call(self) -> Call:
        """Wait for a call and return the oldest call. Later calls can still be cancelled.

        Raises:
            EOFError: the server exited.
        """
        self._handle_received(wait=True)
        return self._calls.pop(next(iter(self._calls)))

    def receive_calls(self, *, wait: bool) -> list[Call]:
        """Return all pending calls. With `wait`, block until there is at least one call.

        Raises:
            EOFError: the server exited.
        """
        self._handle_received(wait=wait)
        calls, self._calls = list(self._calls.values()), {}
        return calls

    def reply(self, call_id: int, value: object) -> None:
        """Reply to a call. Thread-safe."""
        self._send_message(Reply(call_id, value))

    def reply_error(self, call_id: int, error: str) -> None:
        """Reply with an error, which must not contain message content."""
        self._send_message(Reply(call_id, error=error))

    def notify(self, body: object) -> None:
        """Send a notification to the server. Thread-safe."""
        self._send_message(Notification(body))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _handle_received(self, *, wait: bool) -> None:
        """Handle all received messages. With `wait`, block until there is a call."""
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

    def _send_message(self, message: Reply | Started | Notification) -> None:
        with self._sending:
            self._connection.send(message)


def _exit_as_orphan(descriptor: int) -> None:
    """Exit after the grace period once the server closes its end or is killed."""
    poll = select.poll()
    poll.register(descriptor, 0)  # POLLHUP is always reported
    poll.poll()
    time.sleep(_ORPHAN_GRACE_S)
    os._exit(1)
