"""Load shedding for expensive reads."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

from nomemory.server.faults import build_overload_fault
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit

_TOTAL_MAX: Final = 1024
"""Maximum number of expensive reads in flight per process."""
_REJECTION_DELAY_S: Final = (0.5, 1.5)
"""Range of the random delay of rejections. It spreads the retries of clients that were rejected together."""
_DELAYED_MAX: Final = 1000
"""Maximum number of delayed rejections. Further rejections are sent immediately."""


@dataclass(frozen=True, slots=True)
class ReadLoad:
    """The expensive reads in flight in a server process.

    Attributes:
        running: the number of reads that hold a slot.
        waiting: the number of reads that wait for a slot.
        users: the number of users with reads in flight.
        refused: the number of reads rejected since the start of the process.
    """

    running: int
    waiting: int
    users: int
    refused: int


class ReadAdmission:
    """Limits how many expensive reads run or wait at the same time.

    Rejections are delayed, because clients that retry at once would otherwise saturate the event loop
    (docs/performance.md).

    Args:
        slots: limits the number of reads that run at the same time.
        user_max: the maximum number of reads in flight per user.
        caller_max: the maximum number of reads in flight per caller, such as an API key.
    """

    def __init__(self, slots: RoundRobinLimit, user_max: int, caller_max: int, total_max: int = _TOTAL_MAX) -> None:
        self._slots = slots
        self._user_max = user_max
        self._caller_max = caller_max
        self._total_max = total_max
        self._by_user: Counter[Hashable] = Counter()
        self._by_caller: Counter[Hashable] = Counter()
        self._total = 0
        self._refused = 0
        self._delayed = 0

    def get_current_load(self) -> ReadLoad:
        """Return the number of reads in flight.

        A waiting recall may count several times, once for each of its searches.
        """
        waiting = self._slots.waiting
        return ReadLoad(max(0, self._total - waiting), waiting, len(self._by_user), self._refused)

    @asynccontextmanager
    async def admit(self, user_id: str, caller: Hashable) -> AsyncIterator[None]:
        """Admit an expensive read, and count it as in flight until the context ends.

        Args:
            user_id: the user whose messages are read; empty for reads of several users.
            caller: identifies the caller for the limit per caller.

        Raises:
            Fault: OVERLOADED, if the limit per user, per caller or in total is reached.
        """
        user = user_id or ("", caller)
        if exceeded_limit := self._find_exceeded_limit(user, caller):
            await self._reject(exceeded_limit)
        self._change_counts(user, caller, 1)
        try:
            yield
        finally:
            self._change_counts(user, caller, -1)

    async def _reject(self, exceeded_limit: str) -> NoReturn:
        self._refused += 1
        if self._delayed < _DELAYED_MAX:
            self._delayed += 1
            try:
                await asyncio.sleep(random.uniform(*_REJECTION_DELAY_S))  # noqa: S311 - no secret
            finally:
                self._delayed -= 1
        raise build_overload_fault(f"too many reads in flight: at most {exceeded_limit}; retry later")

    def _find_exceeded_limit(self, user: Hashable, caller: Hashable) -> str:
        """Return a description of the limit that one more read would exceed; empty if there is none."""
        if self._by_user[user] >= self._user_max:
            return f"{self._user_max} per user"
        if self._by_caller[caller] >= self._caller_max:
            return f"{self._caller_max} per caller"
        if self._total >= self._total_max:
            return f"{self._total_max} in total"
        return ""

    def _change_counts(self, user: Hashable, caller: Hashable, change: int) -> None:
        self._total += change
        for counts, key in ((self._by_user, user), (self._by_caller, caller)):
            counts[key] += change
            if not counts[key]:
                del counts[key]
