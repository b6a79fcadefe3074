"""The writes that wait for the log's writer."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

from nomemory.server.faults import Fault, Reason

_RETRY_AFTER_S = 0.2

Job = TypeVar("Job")


class WriteQueue(Generic[Job]):
    """First in, first out, between the event loop that puts and the thread that takes.

    Args:
        jobs_max: how many jobs may wait.
        bytes_max: how large they may be together. A larger one can wait alone.
    """

    def __init__(self, jobs_max: int, bytes_max: int) -> None:
        self._jobs_max = jobs_max
        self._bytes_max = bytes_max
        self._jobs: deque[tuple[Job, int]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, job: Job, size: int) -> None:
        """Append a job of `size` bytes.

        Raises:
            Fault: OVERLOADED, too much is waiting already.
        """
        with self._lock:
            if self._is_full_for(size):
                raise Fault(Reason.ERROR_REASON_OVERLOADED, "too many writes are waiting", retry_after_s=_RETRY_AFTER_S)
            self._jobs.append((job, size))
            self._bytes += size

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._jobs)

    def take(self, most: int) -> list[Job]:
        """Take up to `most` jobs."""
        with self._lock:
            taken = [self._jobs.popleft() for _ in range(min(len(self._jobs), most))]
            self._bytes -= sum(size for _, size in taken)
        return [job for job, _ in taken]

    def _is_full_for(self, size: int) -> bool:
        return len(self._jobs) >= self._jobs_max or (bool(self._jobs) and self._bytes + size > self._bytes_max)
