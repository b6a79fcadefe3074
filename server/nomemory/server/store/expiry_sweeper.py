"""The background task that removes expired messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from nomemory.server.faults import Fault, Reason


@dataclass(frozen=True, slots=True)
class ExpiryResult:
    """What one step of a sweep did: how many messages it removed, and the user after whom the next step goes on.

    `after` is None at the end of the sweep.
    """

    removed: int
    after: str | None


class ExpiredMessages(Protocol):
    """Removes what has expired. No read returns it any more; its bytes are still there, and indexes know it."""

    async def remove_expired(self, after: str, most: int) -> ExpiryResult:
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
