"""A concurrency limit with a round-robin queue."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class RoundRobinLimit:
    """Limits the number of tasks that run at the same time.

    Waiting tasks are queued by key, for example by user. A free slot goes to the first task of the next key in
    round-robin order. Therefore a key with many waiting tasks delays a task of another key by at most one task.

    Args:
        slots: the maximum number of running tasks.

    Attributes:
        running: the number of tasks that hold a slot.
        waiting: the number of queued tasks.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self.running = 0
        self.waiting = 0

    @asynccontextmanager
    async def slot(self, key: Hashable) -> AsyncIterator[None]:
        """Wait in the queue of a key for a slot, and hold the slot until the context exits."""
        await self._acquire(key)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, key: Hashable) -> None:
        if self.running < self._slots:
            self.running += 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, deque()).append(granted)
        self.waiting += 1
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._leave_queue(key, granted)
            else:  # the slot was granted just before the cancellation
                self._release()
            raise

    def _release(self) -> None:
        """Pass a slot to the next key with a waiting task, or free it if no task is waiting."""
        while self._queues:
            key, queue = self._queues.popitem(last=False)
            granted = queue.popleft()
            if queue:
                self._queues[key] = queue  # move the key to the end
            self.waiting -= 1
            if not granted.cancelled():
                granted.set_result(None)
                return
        self.running -= 1

    def _leave_queue(self, key: Hashable, granted: asyncio.Future[None]) -> None:
        queue = self._queues.get(key)
        if queue is None or granted not in queue:
            return
        queue.remove(granted)
        self.waiting -= 1
        if not queue:
            del self._queues[key]
