"""A number of slots, given to those who wait in the order of their stamps.

Fair queueing: whose turn it is, by what each has had already and what its next request costs. The ticket of a read that
was admitted holds a slot on the event loop, except while it waits for others' work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

_KEPT_MAX = 4096


class Stamp(NamedTuple):
    """Where a request stands in virtual time. The earliest finish goes first, so cheap go before expensive ones."""

    finish: float
    start: float


class VirtualClock:
    """Stamps requests so that whoever goes in the order of the stamps shares its work fairly (self-clocked queueing).

    Each key has a line of its own, on which its requests stand one after another, each as long as it costs. A key
    that was quiet begins where the clock is: it has saved nothing up, and waits behind nobody's backlog.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._ends: dict[Hashable, float] = {}

    def stamp(self, key: Hashable, cost: float) -> Stamp:
        """Put a request at the end of its key's line."""
        start = max(self._now, self._ends.get(key, 0.0))
        if len(self._ends) >= _KEPT_MAX:
            self._forget()
        self._ends[key] = start + cost
        return Stamp(start + cost, start)

    def withdraw(self, key: Hashable, cost: float) -> None:
        """Take back the cost of a request that never began."""
        if key in self._ends:
            self._ends[key] -= cost

    def begin(self, stamp: Stamp) -> None:
        """Note that a request begins."""
        self._now = max(self._now, stamp.start)

    def _forget(self) -> None:
        """Forget the keys that owe nothing."""
        self._ends = {key: end for key, end in self._ends.items() if end > self._now}


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


class Ticket:
    """Holds a slot at most once, however many tasks of the read wait.

    Args:
        stamp: where the read stands among the others, wherever it waits.
        slots: those of the event loop.
    """

    __slots__ = ("_away", "_ended", "_holds", "_slots", "stamp")

    def __init__(self, stamp: Stamp, slots: FairSlots) -> None:
        self.stamp = stamp
        self._slots = slots
        self._holds = False
        self._ended = False
        self._away = 0

    async def begin(self) -> None:
        """Wait for a slot."""
        await self._slots.take(self.stamp)
        self._holds = True

    def leave(self) -> None:
        """Let others work while this read waits."""
        self._away += 1
        self._let_go()

    def give_up(self) -> None:
        """Note that a wait has ended for a task that does not go on."""
        self._away -= 1

    async def come_back(self) -> None:
        """Wait for a slot again, once nothing of the read waits elsewhere."""
        self._away -= 1
        if self._away or self._holds:
            return
        await self._slots.take(self.stamp)
        if self._away or self._holds or self._ended:  # another task of the read was quicker, or waits again
            self._slots.give_back()
        else:
            self._holds = True

    def end(self) -> None:
        """Give up the slot for good."""
        self._ended = True
        self._let_go()

    def _let_go(self) -> None:
        if self._holds:
            self._holds = False
            self._slots.give_back()


CURRENT: ContextVar[Ticket | None] = ContextVar("nomemory_ticket", default=None)
"""The ticket of the read that is being answered. Tasks that a read starts have it, too."""


@asynccontextmanager
async def waiting_elsewhere() -> AsyncIterator[None]:
    """Leave the event loop to other reads while this one waits for a worker, an endpoint or a client."""
    ticket = CURRENT.get()
    if ticket is None:
        yield
        return
    ticket.leave()
    try:
        yield
    except asyncio.CancelledError:
        ticket.give_up()  # who is cancelled does not queue again to learn of it
        raise
    except BaseException:
        await ticket.come_back()
        raise
    await ticket.come_back()


@asynccontextmanager
async def turn_at(slots: FairSlots) -> AsyncIterator[None]:
    """Wait for one of the slots of a shared worker, in the order of the reads' stamps."""
    ticket = CURRENT.get()
    await slots.take(FOREMOST if ticket is None else ticket.stamp)
    try:
        yield
    finally:
        slots.give_back()


FOREMOST = Stamp(0.0, 0.0)
"""The stamp of work that no read has asked for."""
