"""Limits on what all calls of a process hold at the same time. Beyond them a call gets RESOURCE_EXHAUSTED.

They protect the process, not one client from another: limits per address are those of the proxy in front
(`deploy/haproxy/haproxy.cfg`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from nomemory.server.faults import overloaded

MAX_CALLS: Final = 2000
"""Calls in flight whose caller is authorized, imports included."""
MAX_WATCHES: Final = 1000
"""Streams that watch the server's health."""
MAX_PUBLIC_READS: Final = 100
"""Requests of callers who are not authenticated (health, reflection) that are being read."""
MAX_REQUEST_BYTES: Final = 256 * 1024 * 1024
"""Bytes of large requests that are being read or handled."""
_SMALL_REQUEST_BYTES: Final = 65_536
"""Requests up to this size do not count."""

Reserve = Callable[[int], None]
"""Count bytes of the request that is being read. Raises a Fault, OVERLOADED, if there are too many."""


class ConcurrencyLimit:
    """Limits how many things of a kind happen at the same time.

    Args:
        maximum: how many.
        message: tells a client that it was refused.
    """

    def __init__(self, maximum: int, message: str) -> None:
        self._free = maximum
        self._message = message

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot.

        Raises:
            Fault: OVERLOADED, none is free.
        """
        if self._free <= 0:
            raise overloaded(self._message)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class RequestMemory:
    """Limits the bytes of large requests.

    Args:
        maximum: bytes of all of them.
    """

    def __init__(self, maximum: int = MAX_REQUEST_BYTES) -> None:
        self._maximum = maximum
        self._reserved = 0

    @contextmanager
    def reservation(self) -> Iterator[Reserve]:
        """Return what counts the bytes of one request until the context is left."""
        size = reserved = 0

        def reserve(more: int) -> None:
            nonlocal size, reserved
            size += more
            if size <= _SMALL_REQUEST_BYTES:
                return
            if self._reserved and self._reserved + size - reserved > self._maximum:
                raise overloaded("the server holds too many bytes of requests")
            self._reserved += size - reserved
            reserved = size

        try:
            yield reserve
        finally:
            self._reserved -= reserved


class Limits:
    """The limits of one process, over all its transports.

    Attributes:
        calls: calls in flight.
        watches: streams that watch the server's health.
        public_reads: requests of health and reflection that are being read.
        request_memory: bytes of large requests.
    """

    def __init__(
        self,
        calls: int = MAX_CALLS,
        watches: int = MAX_WATCHES,
        public_reads: int = MAX_PUBLIC_READS,
        request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.calls = ConcurrencyLimit(calls, "the server has too many calls in flight")
        self.watches = ConcurrencyLimit(watches, "too many clients watch the server's health")
        self.public_reads = ConcurrencyLimit(public_reads, "the server reads too many requests of health or reflection")
        self.request_memory = RequestMemory(request_bytes)
