"""A worker process's end of the connection to the server. It blocks: a worker has nothing else to do."""

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
"""How long a worker may finish its work after the server is gone."""


class WorkerPipe:
    """Receives calls and replies to them.

    A worker ends with its connection, not with a signal to its process group. If the server is killed, the next
    `receive` raises EOFError; a worker that still runs after a grace period, because its work hangs, exits at once.

    Args:
        descriptor: the socket that the process was started with.
    """

    def __init__(self, descriptor: int) -> None:
        report_crashes()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._connection = Connection(descriptor)
        self._sending = threading.Lock()
        self._calls: dict[int, Call] = {}
        threading.Thread(target=_exit_as_orphan, args=(os.dup(descriptor),), name="orphan-exit", daemon=True).start()

    def ready(self) -> None:
        """Report that calls are received from now on."""
        self._send(Started())

    def not_ready(self, error: str) -> None:
        """Report why calls will never be received. The text reaches the operator."""
        self._send(Started(error))

    def receive_one(self) -> Call:
        """Wait for calls and return the earliest; the others may still be cancelled.

        Raises:
            EOFError: the server is gone.
        """
        self._collect(wait=True)
        return self._calls.pop(next(iter(self._calls)))

    def receive(self, *, wait: bool) -> list[Call]:
        """Return the calls that have arrived and are not cancelled; with `wait`, at least one.

        Raises:
            EOFError: the server is gone.
        """
        self._collect(wait=wait)
        calls, self._calls = list(self._calls.values()), {}
        return calls

    def reply(self, call_id: int, value: object) -> None:
        """Reply to a call. Safe to call from any thread."""
        self._send(Reply(call_id, value))

    def fail(self, call_id: int, error: str) -> None:
        """Reply that a call failed. `error` names the kind and has no content of messages."""
        self._send(Reply(call_id, error=error))

    def notify(self, body: object) -> None:
        """Report something to the server. Safe to call from any thread."""
        self._send(Notification(body))

    def close(self) -> None:
        """Close the connection for both ends."""
        self._connection.close()

    def _collect(self, *, wait: bool) -> None:
        """Take in all messages that have arrived; with `wait`, block until there is a call."""
        while (wait and not self._calls) or self._connection.poll(0):
            self._take(self._receive())

    def _take(self, message: object) -> None:
        match message:
            case Call(call_id):
                self._calls[call_id] = message
            case Cancel(call_id):
                self._calls.pop(call_id, None)
            case Heartbeat(call_id):
                self.reply(call_id, None)

    def _receive(self) -> Any:  # noqa: ANN401 - one of the messages of `ipc_protocol`
        try:
            return self._connection.recv()
        except OSError as error:  # the server was killed while it was sending
            raise EOFError from error

    def _send(self, message: Reply | Started | Notification) -> None:
        with self._sending:
            self._connection.send(message)


def _exit_as_orphan(descriptor: int) -> None:
    """Wait until the server has closed its end or was killed, then for the grace period, and exit."""
    poll = select.poll()
    poll.register(descriptor, 0)  # POLLHUP is reported whatever is asked for
    poll.poll()
    time.sleep(_ORPHAN_GRACE_S)
    os._exit(1)
