"""Load shedding: how many expensive reads a process takes in before it refuses further ones."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

from nomemory.server.faults import overloaded
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit

_TOTAL_MAX: Final = 1024
"""Expensive reads in flight in one process."""
_REFUSAL_DELAY_S: Final = (0.5, 1.5)
"""How long a refusal is delayed: a random time, so that what was refused together does not come back together."""
_DELAYED_MAX: Final = 1000
"""Refusals that are delayed at a time; further ones are sent at once."""


@dataclass(frozen=True, slots=True)
class ReadLoad:
    """The expensive reads of a process: those at work or waiting now, and those refused since its start."""

    running: int
    waiting: int
    users: int
    refused: int


class ReadAdmission:
    """Limits the expensive reads in flight: those that work, and those that wait for a slot or for another process.

    A refusal is delayed. Refused at once, clients that retry at once keep the event loop from everybody else
    (docs/performance.md).

    Args:
        slots: what admitted reads wait for.
        user_max: reads of one user.
        caller_max: reads of one caller, such as an API key.
        total_max: reads of all.
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

    def load(self) -> ReadLoad:
        """Return the load of now. A recall, one read, may wait with several searches."""
        waiting = self._slots.waiting
        return ReadLoad(max(0, self._total - waiting), waiting, len(self._by_user), self._refused)

    @asynccontextmanager
    async def admit(self, user_id: str, caller: Hashable) -> AsyncIterator[None]:
        """Admit a read for as long as the context lasts.

        Args:
            user_id: whose messages are read; empty if the read is of no particular user.
            caller: who calls.

        Raises:
            Fault: OVERLOADED, a limit is reached.
        """
        user = user_id or ("", caller)
        if not self._has_room(user, caller):
            await self._refuse()
        self._count(user, caller, 1)
        try:
            yield
        finally:
            self._count(user, caller, -1)

    async def _refuse(self) -> NoReturn:
        self._refused += 1
        if self._delayed < _DELAYED_MAX:
            self._delayed += 1
            try:
                await asyncio.sleep(random.uniform(*_REFUSAL_DELAY_S))  # noqa: S311 - no secret
            finally:
                self._delayed -= 1
        raise overloaded("too many reads are in flight")

    def _has_room(self, user: Hashable, caller: Hashable) -> bool:
        return (
            self._total < self._total_max
            and self._by_user[user] < self._user_max
            and self._by_caller[caller] < self._caller_max
        )

    def _count(self, user: Hashable, caller: Hashable, change: int) -> None:
        self._total += change
        for counts, key in ((self._by_user, user), (self._by_caller, caller)):
            counts[key] += change
            if not counts[key]:
                del counts[key]
