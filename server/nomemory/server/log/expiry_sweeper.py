"""Removes what has expired, in the background."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nomemory.server.faults import Fault, Reason
from nomemory.server.log.protocol import ExpiredMessages


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
