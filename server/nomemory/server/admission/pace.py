"""The pace of dear reads: pieces of work on the event loop, and rests in which the loop serves everything else.

gRPC hands calls to the loop one after another, each within several turns of the loop. If dear work filled every turn,
a short call would wait for a piece of it several times over, behind every call that came before. So a rest lasts while
calls keep coming, up to a bound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

_Answer = TypeVar("_Answer")

_PIECE_S = 0.003
"""Seconds of work after which a rest is due."""


class Pace:
    """Decides when a dear read may go on. While nothing else waits there is no rest.

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
