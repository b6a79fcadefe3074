"""The pipe between this process and its workers, and the worker's end of it.

A frame is a header (length, id of the call) and a pickled body. Both ends are this program, over a socket pair that
nobody else can open.
"""

from __future__ import annotations

import pickle
import signal
import socket
from dataclasses import dataclass
from struct import Struct
from typing import Any

HEADER = Struct("<IQ")

GREETING = 0
"""The id under which a worker says once that it is ready, or why it cannot be."""

_CHUNK = 1 << 16
_DRAIN_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back: a value, or the kind of error that a worker ran into."""

    value: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The body of a frame that calls an earlier one of the same id back: nobody waits for its answer any more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as it reaches the worker."""

    call_id: int
    request: Any


def pack(call_id: int, body: object) -> bytes:
    """Make a frame."""
    pickled = pickle.dumps(body, protocol=pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(pickled), call_id) + pickled


def unpack(body: bytes) -> Any:  # noqa: ANN401 - requests and answers are the worker's own types
    """Read the body of a frame."""
    return pickle.loads(body)  # noqa: S301 - written by our own process, see above


class Frames:
    """Puts frames together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __len__(self) -> int:
        """Return how many bytes wait for the rest of their frame, or to be taken."""
        return len(self._buffer)

    def feed(self, piece: bytes) -> None:
        """Add what has arrived."""
        self._buffer += piece

    def take(self) -> list[tuple[int, Any]]:
        """Take those that are whole: the id of the call, and the body."""
        taken, at = [], 0
        while len(self._buffer) - at >= HEADER.size:
            length, call_id = HEADER.unpack_from(self._buffer, at)
            start, end = at + HEADER.size, at + HEADER.size + length
            if end > len(self._buffer):
                break
            taken.append((call_id, unpack(bytes(self._buffer[start:end]))))
            at = end
        del self._buffer[:at]
        return taken


class WorkerPipe:
    """The worker's end. A worker lives as long as its pipe, whatever signals its process group gets."""

    def __init__(self, descriptor: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._socket = socket.socket(fileno=descriptor)
        self._arrived = Frames()

    def receive(self, *, wait: bool) -> list[Asked]:
        """Take all the calls that have arrived; with `wait`, at least one.

        Raises:
            EOFError: the other end is gone.
        """
        self._drain()
        asked = self._arrived.take()
        while wait and not asked:
            self._take(self._socket.recv(_CHUNK))
            self._drain()
            asked = self._arrived.take()
        return [Asked(*call) for call in asked]

    def reply(self, call_id: int, value: object) -> None:
        """Answer a call."""
        self._socket.sendall(pack(call_id, Answer(value)))

    def fail(self, call_id: int, error: str) -> None:
        """Say that a call failed; `error` names the kind and holds no content."""
        self._socket.sendall(pack(call_id, Answer(error=error)))

    def _drain(self) -> None:
        while len(self._arrived) < _DRAIN_MAX:
            try:
                self._take(self._socket.recv(_CHUNK, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return

    def _take(self, piece: bytes) -> None:
        if not piece:
            raise EOFError
        self._arrived.feed(piece)
