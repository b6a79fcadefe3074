"""A concurrency limit with a fair queue."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class RoundRobinLimit:
    """Limits how many tasks work at a time.

    Tasks that wait are queued by key, such as a user. A free slot goes to the first task of the next key, so a key
    with many waiting tasks delays another key by one task at most. A cancelled task leaves its queue at once.

    Args:
        slots: how many tasks may work at a time.

    Attributes:
        running: how many tasks hold a slot.
        waiting: how many tasks wait for one.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self.running = 0
        self.waiting = 0

    @asynccontextmanager
    async def slot(self, key: Hashable) -> AsyncIterator[None]:
        """Hold a slot, once it is this key's turn."""
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
                self._leave(key, granted)
            else:  # the slot was granted in the moment of the cancellation
                self._release()
            raise

    def _release(self) -> None:
        """Pass the slot on to the next key, or free it."""
        while self._queues:
            key, queue = self._queues.popitem(last=False)
            granted = queue.popleft()
            if queue:
                self._queues[key] = queue  # behind the other keys
            self.waiting -= 1
            if not granted.cancelled():
                granted.set_result(None)
                return
        self.running -= 1

    def _leave(self, key: Hashable, granted: asyncio.Future[None]) -> None:
        queue = self._queues.get(key)
        if queue is None or granted not in queue:
            return
        queue.remove(granted)
        self.waiting -= 1
        if not queue:
            del self._queues[key]
