"""The ticket of a read that was admitted: it holds a slot on the event loop, except while it waits for others' work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from nomemory.server.admission.fair_slots import FairSlots, Stamp


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
