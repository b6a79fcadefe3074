"""The one dialect of the pipes between a server's processes.

A frame is a header (length, id of the call) and a pickled body. The body is a request, the `Reply` to a request, or the
`Withdrawal` of one. Each end counts its own calls from 1. Both ends are this program, over a socket pair that nobody
else can open.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

HEADER = Struct("<IQ")

READY = 0
"""The id under which a started process replies once, unasked: it is ready, or why it cannot be."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a call: a value, or the error that it ended with."""

    value: Any = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class InTrace:
    """A request that belongs to a trace: what its span is called, and the headers that W3C gives it."""

    name: str
    headers: tuple[tuple[str, str], ...]
    request: Any


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The caller of the earlier request with the same id has given up, and does not wait for its reply."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A request that every process answers at once, or between two pieces of its work: it is alive."""


class Frame(NamedTuple):
    """What has arrived: a request, with the id to reply under, or another body and the id of the call it belongs to."""

    call_id: int
    request: Any


def pack(call_id: int, body: object) -> bytes:
    """Make a frame."""
    pickled = pickle.dumps(body, protocol=pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(pickled), call_id) + pickled


def unpack(body: bytes) -> Any:  # noqa: ANN401 - each caller knows its own types
    """Read the body of a frame."""
    return pickle.loads(body)  # noqa: S301 - written by our own process, see above


class FrameBuffer:
    """Puts frames together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._put_back: list[Frame] = []

    def __len__(self) -> int:
        """Return how many bytes are buffered."""
        return len(self._buffer)

    def feed(self, piece: bytes) -> None:
        """Add what has arrived."""
        self._buffer += piece

    def put_back(self, frames: list[Frame]) -> None:
        """Put frames back that were taken, in front of what has arrived since."""
        self._put_back = frames + self._put_back

    def take(self) -> list[Frame]:
        """Remove the complete frames. What was put back comes first."""
        taken, at = self._put_back, 0
        self._put_back = []
        while len(self._buffer) - at >= HEADER.size:
            length, call_id = HEADER.unpack_from(self._buffer, at)
            start, end = at + HEADER.size, at + HEADER.size + length
            if end > len(self._buffer):
                break
            taken.append(Frame(call_id, unpack(bytes(self._buffer[start:end]))))
            at = end
        del self._buffer[:at]
        return taken
