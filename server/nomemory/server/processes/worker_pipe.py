"""The worker's end of a pipe: blocking, for a process whose calls hold the interpreter's lock anyway."""

from __future__ import annotations

import signal
import socket
import threading
from itertools import count

from nomemory.server.processes.frames import (
    READY,
    Frame,
    FrameBuffer,
    Heartbeat,
    Reply,
    Withdrawal,
    pack,
)
from nomemory.server.standard_error import report_crashes

_CHUNK = 1 << 16
_DRAIN_MAX = 8 << 20


class WorkerPipe:
    """Receives calls and replies to them. A worker lives as long as its pipe, whatever signals its process group gets.

    Args:
        descriptor: the socket that the process was started with.
    """

    def __init__(self, descriptor: int) -> None:
        report_crashes()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._socket = socket.socket(fileno=descriptor)
        self._sending = threading.Lock()
        self._arrived = FrameBuffer()
        self._ids = count(READY + 1)

    def ready(self) -> None:
        """Report that calls can be answered from now on."""
        self.reply(READY, None)

    def not_ready(self, error: str) -> None:
        """Report why calls can never be answered. The text reaches the operator."""
        self.fail(READY, error)

    def receive_one(self) -> Frame:
        """Wait for calls, and return the earliest. What is withdrawn while that is answered is never returned.

        Raises:
            EOFError: the other end is gone, so that nobody waits for the calls that are left.
        """
        first, *others = self.receive(wait=True)
        self._arrived.put_back(others)
        return first

    def receive(self, *, wait: bool) -> list[Frame]:
        """Return the calls that have arrived, without those that are withdrawn already; with `wait`, at least one.

        Heartbeats are answered here: whoever receives calls, or looks for them between two pieces of work, is alive.

        Raises:
            EOFError: the other end is gone.
        """
        self._drain()
        calls = self._calls()
        while wait and not calls:
            self._feed(self._socket.recv(_CHUNK))
            self._drain()
            calls = self._calls()
        return calls

    def reply(self, call_id: int, value: object) -> None:
        """Answer a call. Any thread may do so."""
        self._send(call_id, Reply(value))

    def fail(self, call_id: int, error: str) -> None:
        """Answer that a call failed; `error` names the kind and holds no content of messages."""
        self._send(call_id, Reply(error=error))

    def notify(self, request: object) -> None:
        """Tell the other end something. Any one thread may do so, and nobody waits for an answer."""
        self._send(next(self._ids), request)

    def close(self) -> None:
        """Close the pipe for both ends."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, call_id: int, body: object) -> None:
        with self._sending:
            self._socket.sendall(pack(call_id, body))

    def _calls(self) -> list[Frame]:
        """Answer heartbeats; leave out calls that were withdrawn before they began. What has begun is finished."""
        frames = self._arrived.take()
        for call_id, body in frames:
            if isinstance(body, Heartbeat):
                self.reply(call_id, None)
        withdrawn = {call_id for call_id, body in frames if isinstance(body, Withdrawal)}
        calls = (frame for frame in frames if frame.call_id not in withdrawn)
        return [call for call in calls if not isinstance(call.request, Heartbeat | Reply)]

    def _drain(self) -> None:
        while len(self._arrived) < _DRAIN_MAX:
            try:
                self._feed(self._socket.recv(_CHUNK, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return

    def _feed(self, piece: bytes) -> None:
        if not piece:
            raise EOFError
        self._arrived.feed(piece)
