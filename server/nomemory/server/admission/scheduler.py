"""The scheduler in front of the reads: what is admitted, in which order it runs, and what is turned away.

A short read runs at once. A dear one waits for a slot on the event loop, in an order that shares the loop fairly among
users by what their reads cost, cheap ones first. What one user and one caller may have in hand is bounded, so that a
flood waits in its own line, and its rest is refused.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from nomemory.server.admission.fair_slots import FairSlots
from nomemory.server.admission.pace import Pace, Paced
from nomemory.server.admission.rate_limit import RateLimit
from nomemory.server.admission.ticket import CURRENT, Ticket
from nomemory.server.admission.virtual_clock import VirtualClock
from nomemory.server.faults import Fault, Reason
from nomemory.server.settings import Settings

_Answer = TypeVar("_Answer")

_SPREAD = (0.5, 1.5)
"""Between these shares of the pause a refusal is sent: what was refused together must not come back together."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who asks for what.

    Attributes:
        user: the stored id of the user who is read; empty where the read is of none in particular.
        caller: who calls.
        cost: about how many milliseconds the read takes on the event loop; 0 for a short one, which waits for nobody.
        recurs: whether each reply of a stream costs as much.
    """

    user: str
    caller: Hashable
    cost: float
    recurs: bool = False

    @property
    def key(self) -> Hashable:
        """Whose line the read stands in."""
        return self.user or ("", self.caller)


@dataclass(frozen=True, slots=True)
class Load:
    """What a process has in hand, and what it has refused since it started."""

    running: int
    waiting: int
    users: int
    refused: int


class ReadScheduler:
    """Runs reads in one process.

    Args:
        settings: the bounds, and the least time after which a refused read may come back.
        now: the time in seconds, for the limits of rate.
    """

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = VirtualClock()
        self._slots = FairSlots(settings.reads.running_max)
        self._pace = Pace(settings.reads.rest_s, settings.reads.rest_max_s)
        self._by_user: Counter[Hashable] = Counter()
        self._by_caller: Counter[Hashable] = Counter()
        self._in_hand = 0
        self._refused = 0
        self._refusing = 0
        self._user_rate = RateLimit(settings.reads.user_per_s, now)
        self._caller_rate = RateLimit(settings.reads.caller_per_s, now)

    def load(self) -> Load:
        """Return what is in hand now."""
        waiting = self._slots.waiting
        return Load(self._in_hand - waiting, waiting, len(self._by_user), self._refused)

    async def run(self, claim: Claim, read: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Run a read when it is its turn.

        Raises:
            Fault: OVERLOADED, too much is in hand.
        """
        await self._check(claim)
        if not claim.cost:
            return await read()
        ticket = self._take(claim)
        try:
            await self._begin(ticket, claim)
            return await Paced(read(), self._pace)
        finally:
            self._end(ticket, claim)

    async def each(self, claim: Claim, replies: AsyncGenerator[_Answer, None]) -> AsyncGenerator[_Answer, None]:
        """Yield what a read streams. It holds its slot while it makes a reply, not while the client takes it.

        Raises:
            Fault: OVERLOADED, too much is in hand.
        """
        await self._check(claim)
        ticket = self._take(claim)
        try:
            await self._begin(ticket, claim)
            async with aclosing(replies):
                while (reply := await Paced(anext(replies, None), self._pace)) is not None:
                    ticket.leave()
                    yield reply
                    if claim.recurs:
                        ticket.stamp = self._clock.stamp(claim.key, claim.cost)
                    await ticket.come_back()
        finally:
            self._end(ticket, claim)

    async def _check(self, claim: Claim) -> None:
        """Let a read in, or refuse it after a pause: a flood that is refused at once comes back at once."""
        self._pace.note_arrival()
        wait_s = self._user_rate.wait_s(claim.key) or self._caller_rate.wait_s(claim.caller)
        if not wait_s and (not claim.cost or self._has_room(claim)):
            return
        self._refused += 1
        if self._refusing < self._settings.reads.refusals_max:
            self._refusing += 1
            try:
                await asyncio.sleep(self._settings.reads.refusal_s * random.uniform(*_SPREAD))  # noqa: S311 - no secret
            finally:
                self._refusing -= 1
        raise Fault(
            Reason.ERROR_REASON_OVERLOADED,
            "reads come too fast" if wait_s else "too many reads are waiting",
            retry_after_s=max(wait_s, self._settings.reads.retry_s),
        )

    def _has_room(self, claim: Claim) -> bool:
        settings = self._settings
        return (
            self._in_hand < settings.reads.total_max
            and self._by_user[claim.key] < settings.reads.user_max
            and self._by_caller[claim.caller] < settings.reads.caller_max
        )

    def _take(self, claim: Claim) -> Ticket:
        self._in_hand += 1
        self._pace.is_crowded = self._in_hand > 1
        self._by_user[claim.key] += 1
        self._by_caller[claim.caller] += 1
        return Ticket(self._clock.stamp(claim.key, claim.cost), self._slots)

    async def _begin(self, ticket: Ticket, claim: Claim) -> None:
        try:
            await ticket.begin()
        except asyncio.CancelledError:
            self._clock.withdraw(claim.key, claim.cost)
            raise
        self._clock.begin(ticket.stamp)
        CURRENT.set(ticket)  # each call is answered in a task of its own

    def _end(self, ticket: Ticket, claim: Claim) -> None:
        ticket.end()
        self._in_hand -= 1
        self._pace.is_crowded = self._in_hand > 1
        _count_down(self._by_user, claim.key)
        _count_down(self._by_caller, claim.caller)


def _count_down(counts: Counter[Hashable], key: Hashable) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
