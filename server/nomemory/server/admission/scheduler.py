"""The scheduler in front of the reads: what is admitted, in which order it runs, and what is turned away.

A short read runs at once. An expensive one waits for a slot on the event loop, in an order that shares the loop fairly
among users by what their reads cost, cheap ones first. What one user and one caller may have in hand is bounded, so
that a flood waits in its own line, and its rest is refused.

`Pace` divides expensive reads into pieces of work, with rests in which the event loop serves everything else.

gRPC hands calls to the loop one after another, each within several turns of the loop. If expensive work
filled every turn, a short call would wait for a piece of it several times over, behind every call that came before. So
a rest lasts while calls keep coming, up to a bound.

What reads cost the event loop, in milliseconds on a machine of today: declared, by method and by what is asked for.

The figures are those of a user with thousands of messages, rounded (docs/performance.md). They decide who goes first
and how large each one's share is, so only their proportions matter.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Hashable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.admission.fair_slots import CURRENT, FairSlots, Ticket, VirtualClock
from nomemory.server.faults import overloaded
from nomemory.server.settings import Settings
from nomemory.v1 import query_service_pb2 as pb

_Answer = TypeVar("_Answer")
_PIECE_S = 0.003
"""Seconds of work after which a rest is due."""


class Pace:
    """Decides when an expensive read may go on. While nothing else waits there is no rest.

    Args:
        rest_s: how long a rest is.
        rest_max_s: how much longer it is, at most, while calls keep coming.
    """

    def __init__(self, rest_s: float, rest_max_s: float) -> None:
        self._rest_s = rest_s
        self._rest_max_s = rest_max_s
        self._has_arrival = False
        self._one_at_a_time = asyncio.Lock()
        self._worked_s = 0.0
        self._rested_at = 0.0
        self.is_crowded = False

    def note_work(self, seconds: float) -> None:
        """Note that the loop has been held for so long."""
        self._worked_s += seconds
        if self._worked_s >= _PIECE_S:
            self._worked_s = 0.0
            self._rested_at = time.perf_counter() + self._rest_s

    def note_arrival(self) -> None:
        """Note that a call has come. Others may have come behind it."""
        self._has_arrival = True

    async def rest(self) -> None:
        """Wait until the loop has had its rest, after those who wait already."""
        if not self.is_crowded:
            await asyncio.sleep(0)
            return
        async with self._one_at_a_time:
            await asyncio.sleep(max(0.0, self._rested_at - time.perf_counter()))
            give_up = time.perf_counter() + self._rest_max_s
            while self._has_arrival and time.perf_counter() < give_up:
                self._has_arrival = False
                await asyncio.sleep(self._rest_s)


class Paced(Generic[_Answer]):
    """Awaits a read piece by piece: where it lets other calls have their turn (`asyncio.sleep(0)`), it rests.

    Args:
        read: what is awaited.
        pace: says when to go on.
    """

    def __init__(self, read: Awaitable[_Answer], pace: Pace) -> None:
        self._read = read
        self._pace = pace

    def __await__(self) -> Generator[Any, Any, _Answer]:
        """Step through the read, and measure each step."""
        steps = self._read.__await__()
        step, given = steps.send, None  # what the next step is, and with what
        while True:
            began = time.perf_counter()
            try:
                waits_for = step(given)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]  # the read's own answer
            finally:
                self._pace.note_work(time.perf_counter() - began)
            try:
                if waits_for is None:
                    yield from self._pace.rest().__await__()
                else:
                    yield waits_for
                step, given = steps.send, None
            except BaseException as error:  # noqa: BLE001 - a cancellation, which is for the read itself
                step, given = steps.throw, error


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
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = VirtualClock()
        self._slots = FairSlots(settings.reads.running_max)
        self._pace = Pace(settings.reads.rest_s, settings.reads.rest_max_s)
        self._by_user: Counter[Hashable] = Counter()
        self._by_caller: Counter[Hashable] = Counter()
        self._in_hand = 0
        self._refused = 0
        self._refusing = 0

    def load(self) -> Load:
        """Return what is in hand now."""
        waiting = self._slots.waiting
        return Load(self._in_hand - waiting, waiting, len(self._by_user), self._refused)

    async def run(self, claim: Claim, read: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Run a read when it is its turn.

        Raises:
            Fault: OVERLOADED, too much is in hand.
        """
        self._pace.note_arrival()
        if not claim.cost:
            return await read()
        async with self._turn(claim):
            return await Paced(read(), self._pace)

    async def each(self, claim: Claim, replies: AsyncGenerator[_Answer, None]) -> AsyncGenerator[_Answer, None]:
        """Yield what a read streams. It holds its slot while it makes a reply, not while the client takes it.

        Raises:
            Fault: OVERLOADED, too much is in hand.
        """
        self._pace.note_arrival()
        async with self._turn(claim) as ticket, aclosing(replies):
            while (reply := await Paced(anext(replies, None), self._pace)) is not None:
                ticket.leave()
                yield reply
                if claim.recurs:
                    ticket.stamp = self._clock.stamp(claim.key, claim.cost)
                await ticket.come_back()

    @asynccontextmanager
    async def _turn(self, claim: Claim) -> AsyncIterator[Ticket]:
        """Wait for a slot, and hold a place among those that are in hand until the context is left."""
        if not self._has_room(claim):
            await self._refuse()
        self._count(claim, 1)
        ticket = Ticket(self._clock.stamp(claim.key, claim.cost), self._slots)
        try:
            try:
                await ticket.begin()
            except asyncio.CancelledError:
                self._clock.withdraw(claim.key, claim.cost)
                raise
            self._clock.begin(ticket.stamp)
            CURRENT.set(ticket)  # each call is answered in a task of its own
            yield ticket
        finally:
            ticket.end()
            self._count(claim, -1)

    async def _refuse(self) -> NoReturn:
        """Refuse a read after a pause: a flood that is refused at once comes back at once."""
        self._refused += 1
        if self._refusing < self._settings.reads.refusals_max:
            self._refusing += 1
            try:
                await asyncio.sleep(self._settings.reads.refusal_s * random.uniform(*_SPREAD))  # noqa: S311 - no secret
            finally:
                self._refusing -= 1
        raise overloaded("too many reads are waiting")

    def _has_room(self, claim: Claim) -> bool:
        settings = self._settings
        return (
            self._in_hand < settings.reads.total_max
            and self._by_user[claim.key] < settings.reads.user_max
            and self._by_caller[claim.caller] < settings.reads.caller_max
        )

    def _count(self, claim: Claim, more: int) -> None:
        self._in_hand += more
        self._pace.is_crowded = self._in_hand > 1
        for counts, key in ((self._by_user, claim.key), (self._by_caller, claim.caller)):
            counts[key] += more
            if not counts[key]:
                del counts[key]


_FIXED: Final = {
    "GetNeighbors": 0.0,
    "BatchGetMessages": 0.0,
    "SemanticSearch": 2.0,
    "HybridSearch": 15.0,
    "Recall": 25.0,
    "StreamRecall": 25.0,
    "CountMessages": 2.0,
    "ListConversations": 2.0,
    "ListUsers": 5.0,
    "ExportMessages": 5.0,
}
_LEAST: Final = 1.0
_SOUGHT: Final = 2.0
"""A list of what no index leads to: it may look at all that the user said, as a count does."""
_CHARS_PER_MS: Final = 60
_HIGHLIGHT_CHARS_PER_MS: Final = 2000
"""A highlight costs as many milliseconds as the query has characters, by this."""


_HIGHLIGHT_LEAST: Final = 0.02


def cost_of(method: str, request: ProtoMessage, settings: Settings) -> float:
    """Return what a read costs; 0 for a short one. The request has not been checked: it may ask for too much."""
    if isinstance(request, pb.ListMessagesRequest):
        return _SOUGHT if request.filter.role or request.filter.metadata else 0.0
    if isinstance(request, pb.LexicalSearchRequest):
        return _of_words(request, settings)
    return _FIXED[method]


def _of_words(request: pb.LexicalSearchRequest, settings: Settings) -> float:
    limits = settings.limits
    chars = min(len(request.query_text), limits.query_max_chars)
    cost = _LEAST + chars / _CHARS_PER_MS
    if request.HasField("highlight"):
        page = min(max(request.page_size, 0) or limits.page_size_default, limits.page_size_max)
        cost += page * (_HIGHLIGHT_LEAST + chars / _HIGHLIGHT_CHARS_PER_MS)
    return cost
