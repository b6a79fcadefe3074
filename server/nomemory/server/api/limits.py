"""Process-wide limits on concurrent calls and request memory.

A call that exceeds a limit fails with RESOURCE_EXHAUSTED. A proxy can limit calls per client address
(`deploy/haproxy/haproxy.cfg`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from nomemory.server.faults import build_overload_fault

MAX_CALLS: Final = 2000
"""Maximum number of authorized calls in flight, including imports."""
MAX_WATCHES: Final = 1000
"""Maximum number of Watch streams of the health service."""
MAX_PUBLIC_READS: Final = 100
"""Maximum number of concurrent reads of unauthenticated requests (health, reflection)."""
MAX_REQUEST_BYTES: Final = 256 * 1024 * 1024
"""Maximum total size of the large requests in flight, in bytes."""
_SMALL_REQUEST_BYTES: Final = 65_536
"""Requests up to this size do not count towards `MAX_REQUEST_BYTES`."""

Reserve = Callable[[int], None]
"""Reserves memory for a number of bytes of the current request. Raises an OVERLOADED fault at the limit."""


class ConcurrencyLimit:
    """A limit on the number of concurrent operations, above which an operation is rejected.

    Args:
        maximum: the maximum number of concurrent operations.
        message: the message of the fault when the limit is reached.
    """

    def __init__(self, maximum: int, message: str) -> None:
        self._free = maximum
        self._message = message

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold one of the limit's slots until the context ends.

        Raises:
            Fault: OVERLOADED, no slot is free.
        """
        if self._free <= 0:
            raise build_overload_fault(self._message)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class RequestMemoryLimit:
    """A limit on the memory that large requests use together.

    Args:
        maximum: the maximum total size of the requests in flight, in bytes.
    """

    def __init__(self, maximum: int = MAX_REQUEST_BYTES) -> None:
        self._maximum = maximum
        self._reserved = 0

    @contextmanager
    def reservation(self) -> Iterator[Reserve]:
        """Provide a function that reserves memory for one request until the context ends."""
        size = reserved = 0

        def reserve(added_bytes: int) -> None:
            nonlocal size, reserved
            size += added_bytes
            if size <= _SMALL_REQUEST_BYTES:
                return
            if self._reserved and self._reserved + size - reserved > self._maximum:
                raise build_overload_fault(f"the requests in flight exceed {self._maximum:,} bytes: retry later")
            self._reserved += size - reserved
            reserved = size

        try:
            yield reserve
        finally:
            self._reserved -= reserved


class RequestLimits:
    """The limits of one server process, which all transports share.

    Attributes:
        calls: the limit on authorized calls in flight.
        watches: the limit on Watch streams of the health service.
        public_reads: the limit on concurrent reads of health and reflection requests.
        request_memory: the limit on the memory of large requests.
    """

    def __init__(
        self,
        calls: int = MAX_CALLS,
        watches: int = MAX_WATCHES,
        public_reads: int = MAX_PUBLIC_READS,
        request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.calls = ConcurrencyLimit(calls, f"limit of {calls} calls in flight reached")
        self.watches = ConcurrencyLimit(watches, f"limit of {watches} health Watch streams reached")
        self.public_reads = ConcurrencyLimit(
            public_reads, f"limit of {public_reads} concurrent health and reflection requests reached"
        )
        self.request_memory = RequestMemoryLimit(request_bytes)
