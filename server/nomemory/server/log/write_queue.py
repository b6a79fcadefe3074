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
        lanes: how many queues it is. The bounds are of all together.
    """

    def __init__(self, jobs_max: int, bytes_max: int, lanes: int = 1) -> None:
        self._jobs_max = jobs_max
        self._bytes_max = bytes_max
        self._lanes: list[deque[tuple[Job, int]]] = [deque() for _ in range(lanes)]
        self._waiting = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, job: Job, size: int, lane: int = 0) -> None:
        """Append a job of `size` bytes to a lane.

        Raises:
            Fault: OVERLOADED, too much is waiting already.
        """
        with self._lock:
            if self._is_full_for(size):
                raise Fault(Reason.ERROR_REASON_OVERLOADED, "too many writes are waiting", retry_after_s=_RETRY_AFTER_S)
            self._lanes[lane].append((job, size))
            self._waiting += 1
            self._bytes += size

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._waiting

    def take(self, most: int, lane: int = 0) -> list[Job]:
        """Take up to `most` jobs of a lane."""
        jobs = self._lanes[lane]
        with self._lock:
            taken = [jobs.popleft() for _ in range(min(len(jobs), most))]
            self._waiting -= len(taken)
            self._bytes -= sum(size for _, size in taken)
        return [job for job, _ in taken]

    def _is_full_for(self, size: int) -> bool:
        return self._waiting >= self._jobs_max or (self._waiting > 0 and self._bytes + size > self._bytes_max)
