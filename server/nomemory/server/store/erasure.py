"""Erase deleted, replaced and expired messages from the files of the message log and the indexes.

The table `removals` of the message log lists the messages to erase. A removal record is deleted only after every index
has erased its message. The message log then records that its own files still contain the removed bytes, until they are
overwritten. An erasure that is interrupted at any point is therefore repeated. While an index cannot erase its copies,
the messages are erased from the other files only; the removal records remain, and the erasure is retried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.collection_cleanup import CollectionCleanup
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpaces
from nomemory.server.runtime.active_faults import ERASURE, ERASURE_BLOCKED, ActiveFaults
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.lexical.protocol import LexicalProgress
from nomemory.server.search.semantic.protocol import InsufficientSpaceError
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.protocol import ErasableLog
from nomemory.server.store.results import PendingRemovals

_REMOVALS_AT_ONCE: Final = 100_000
"""Number of pending removals at which an erasure begins immediately."""


_POLLS_PER_DEADLINE = 40
"""Number of polls for removals within the time limit for erasure."""

_MAX_POLL_S, _MIN_POLL_S = 5.0, 0.05

_log = get_logger("erasure")


@dataclass(frozen=True, slots=True)
class ErasableIndexes:
    """The indexes of this server from which deleted messages are erased."""

    lexical: LexicalProgress
    spaces: IndexedSpaces
    cleanup: CollectionCleanup

    async def find_lagging_index(self, until: FeedPosition) -> str:
        """Return the name of an index that has not applied all changes up to a position; empty if there is none."""
        if not FeedPosition.from_sequence(self.lexical.applied_sequence).is_at_or_after(until):
            return "lexical"
        for indexed in self.spaces.list_spaces():
            if not (await indexed.indexer.read_checkpoint()).is_at_or_after(until):
                return indexed.space.name
        return ""

    async def erase_deleted(self) -> None:
        """Erase deleted messages from the lexical index, the backlogs and the unused vector collections."""
        await self.lexical.erase_deleted()
        for indexed in self.spaces.list_spaces():
            await indexed.indexer.erase_backlog()
        await self.cleanup.delete_unused_collections()

    async def erase_vectors(self) -> str:
        """Erase deleted messages from the vector indexes in use; return the error message, or an empty string."""
        try:
            for indexed in self.spaces.list_spaces():
                await indexed.index.erase_deleted()
        except InsufficientSpaceError as error:
            return str(error)
        except Fault as fault:
            return fault.message
        return ""


class ErasureTask:
    """The background task that erases removed messages from all files.

    An erasure begins when a removal has been pending for half of `NOMEMORY_ERASE_WITHIN_S`, or when 100,000 removals
    are pending. After a server start, an erasure begins immediately, because it is unknown how long removals have been
    pending.

    Args:
        faults: receives a fault while the erasure is blocked.
    """

    def __init__(
        self, log: ErasableLog, indexes: ErasableIndexes, settings: Settings, faults: ActiveFaults | None = None
    ) -> None:
        self._faults = faults or ActiveFaults()
        self._other_files_due_at = 0.0
        self._log = log
        self._indexes = indexes
        self._settings = settings
        self._poll_s = min(_MAX_POLL_S, max(_MIN_POLL_S, settings.erasure.within_s / _POLLS_PER_DEADLINE))
        self._retry_s = min(settings.erasure.max_retry_delay_s, settings.erasure.within_s / 4)
        self._waiting_since: float | None = -settings.erasure.within_s

    async def run(self) -> None:
        """Run until cancelled. `run` can be called again after any error."""
        while True:
            removals = await self._log.read_pending_removals(_REMOVALS_AT_ONCE)
            if removals is None:
                self._waiting_since = None
            elif self._is_due(removals):
                if not await self._erase_until(removals.until):
                    await asyncio.sleep(self._retry_s)
                continue
            await asyncio.sleep(self._poll_s)

    def _is_due(self, removals: PendingRemovals) -> bool:
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        return removals.are_many or now - self._waiting_since >= self._settings.erasure.within_s / 2

    async def _erase_until(self, until: FeedPosition) -> bool:
        """Erase the removed messages up to a position; return False if the erasure has to be retried."""
        began_at = time.monotonic()
        if lagging := await self._wait_for_indexes(until):
            await self._postpone(f"the index {lagging} lags behind the message log", are_vectors_due=True)
            return False
        next_due = time.monotonic()  # later removals are erased in the next run
        if obstacle := await self._indexes.erase_vectors():
            await self._postpone(f"the vectors cannot be erased now: {obstacle}")
            return False
        self._faults.clear(ERASURE)
        await self._indexes.erase_deleted()
        await _run_throttled(partial(self._log.delete_removals, until, self._settings.erasure.batch_size))
        await self._erase_from_log()
        self._waiting_since = next_due
        _log.info("removed messages were erased", until=until.latest, took_s=round(time.monotonic() - began_at, 3))
        return True

    async def _postpone(self, obstacle: str, *, are_vectors_due: bool = False) -> None:
        """Report why an erasure is blocked, and erase the messages from the other files if their erasure is due."""
        self._faults.report(ERASURE, ERASURE_BLOCKED, obstacle)
        now = time.monotonic()
        if now >= self._other_files_due_at:
            if are_vectors_due:
                await self._indexes.erase_vectors()
            with suppress(Fault):  # the erasure is retried
                await self._indexes.erase_deleted()
            await self._erase_from_log()
            self._other_files_due_at = now + self._settings.erasure.within_s / 2

    async def _erase_from_log(self) -> None:
        await _run_throttled(partial(self._log.release_free_pages, self._settings.erasure.max_pages))
        await self._overwrite_unused_bytes()

    async def _wait_for_indexes(self, until: FeedPosition) -> str:
        """Wait until all indexes have applied the removals, for at most a quarter of `NOMEMORY_ERASE_WITHIN_S`.

        Return the name of an index that still lags, or an empty string.
        """
        deadline = time.monotonic() + self._settings.erasure.within_s / 4
        while (lagging := await self._indexes.find_lagging_index(until)) and time.monotonic() < deadline:  # noqa: ASYNC110 - waits by polling
            await asyncio.sleep(self._poll_s)
        return lagging

    async def _overwrite_unused_bytes(self) -> None:
        page: int | None = 0
        while page is not None:
            began_at = time.monotonic()
            last_page = await self._log.overwrite_unused_bytes(page, self._settings.erasure.max_pages)
            await asyncio.sleep(self._poll_s if last_page == page else time.monotonic() - began_at)
            page = last_page


async def _run_throttled(run_batch: Callable[[], Awaitable[bool]]) -> None:
    """Run all batches, and pause after each batch for as long as the batch took, so that writes can proceed."""
    has_more = True
    while has_more:
        began_at = time.monotonic()
        has_more = await run_batch()
        await asyncio.sleep(time.monotonic() - began_at)
