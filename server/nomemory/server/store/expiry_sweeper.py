"""The background task that removes expired messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from nomemory.server.faults import Fault, Reason


@dataclass(frozen=True, slots=True)
class ExpiryResult:
    """The result of removing one batch of expired messages.

    Attributes:
        after: the user id after which the sweep continues; None at the end of the sweep.
    """

    removed: int
    after: str | None


class ExpiredMessageDeleter(Protocol):
    """Interface for removing expired messages from the message log.

    Reads hide expired messages until they are removed.
    """

    async def delete_expired_messages(self, after: str, limit: int) -> ExpiryResult:
        """Remove up to `limit` expired messages in one commit.

        Messages that exceed the maximum age are looked up user by user, starting after the user id `after`.
        """


class ExpirySweeper:
    """Periodically removes expired messages in small batches.

    Args:
        interval_s: seconds between two sweeps.
        batch_max: maximum number of messages in one commit, so that writes do not wait long.
    """

    def __init__(self, log: ExpiredMessageDeleter, interval_s: float, batch_max: int) -> None:
        self._log = log
        self._interval_s = interval_s
        self._batch_max = batch_max
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Remove expired messages periodically until `stop` is called."""
        while not self._stopped.is_set():
            await self._sweep()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._stopped.wait()

    def stop(self) -> None:
        """End `run` after the current batch."""
        self._stopped.set()

    async def _sweep(self) -> None:
        """Remove all expired messages; end early if the write queue is full."""
        after: str | None = ""
        while after is not None and not self._stopped.is_set():
            try:
                after = (await self._log.delete_expired_messages(after, self._batch_max)).after
            except Fault as fault:
                if fault.reason != Reason.ERROR_REASON_OVERLOADED:
                    raise
                return
