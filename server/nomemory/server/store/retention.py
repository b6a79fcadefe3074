"""How long messages live, and the background task that removes what has expired."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from nomemory.server.faults import Fault, Reason

NEVER_US: Final = 2**63 - 1
"""Later than every moment of the contract."""


def _now_us() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Tells which messages have expired: by their own `expire_us`, or because they are too old.

    Attributes:
        most_us: the greatest age, counted from `ts`, in microseconds; None: there is none.
        now_us: the clock, in microseconds since the epoch.
    """

    most_us: int | None = None
    now_us: Callable[[], int] = _now_us

    @classmethod
    def of_days(cls, days: float) -> Lifetimes:
        """Return those of a greatest age in days; 0: there is none."""
        return cls(round(days * 86_400_000_000) or None)

    def oldest_us(self) -> int | None:
        """Return the `ts` at which, and before which, everything is too old by now; None: nothing is."""
        return None if self.most_us is None else self.now_us() - self.most_us


@dataclass(frozen=True, slots=True)
class Swept:
    """What one step of a sweep did: how many messages it removed, and the user after whom the next step goes on.

    `after` is None at the end of the sweep.
    """

    removed: int
    after: str | None


class ExpiredMessages(Protocol):
    """Removes what has expired. No read returns it any more; its bytes are still there, and indexes know it."""

    async def remove_expired(self, after: str, most: int) -> Swept:
        """Remove up to `most` messages.

        Messages that are too old are looked for user by user, among users whose ids come after `after`.
        """


class ExpirySweeper:
    """Looks again and again for messages that have expired, and removes them in small batches.

    Args:
        log: removes them.
        interval_s: seconds between two looks.
        batch_max: most messages in one commit: writes wait no longer for it than for one of theirs.
    """

    def __init__(self, log: ExpiredMessages, interval_s: float, batch_max: int) -> None:
        self._log = log
        self._interval_s = interval_s
        self._batch_max = batch_max
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Sweep until `stop` is called."""
        while not self._stopped.is_set():
            await self._sweep()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._stopped.wait()

    def stop(self) -> None:
        """Have `run` end after the batch at hand."""
        self._stopped.set()

    async def _sweep(self) -> None:
        """Remove all there is by now. Writes that wait go first: the rest is left for the next time."""
        after: str | None = ""
        while after is not None and not self._stopped.is_set():
            try:
                after = (await self._log.remove_expired(after, self._batch_max)).after
            except Fault as fault:
                if fault.reason != Reason.ERROR_REASON_OVERLOADED:
                    raise
                return
