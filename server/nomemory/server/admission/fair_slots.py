"""A number of slots, given to those who wait in the order of their stamps."""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count

from nomemory.server.admission.virtual_clock import Stamp

_Waiting = tuple[Stamp, int, asyncio.Future[None]]


class FairSlots:
    """Lets so many work at a time. Who is cancelled while waiting leaves the queue at once.

    Args:
        number: how many slots there are.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._queue: list[_Waiting] = []
        self._arrivals = count()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    async def take(self, stamp: Stamp) -> None:
        """Wait for a slot. Whoever gets one gives it back with `give_back`."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = (stamp, next(self._arrivals), turn)
        heappush(self._queue, waiting)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(waiting)
            else:  # its turn came at the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a slot to who is next."""
        while self._queue:
            _, _, turn = heappop(self._queue)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, waiting: _Waiting) -> None:
        if waiting in self._queue:
            self._queue.remove(waiting)
            heapify(self._queue)
