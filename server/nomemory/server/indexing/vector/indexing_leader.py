"""Leader election among servers that share a vector index. Only the leader fills the shared index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.backlog_feed import BacklogFeed
from nomemory.server.indexing.vector.reconcile import RunInStoreThread
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.index_progress import IndexProgress
from nomemory.server.search.semantic.protocol import VectorIndex

if TYPE_CHECKING:
    from nomemory.server.indexing.vector.leader_lock import PostgresLeaderLock

_log = get_logger("vectors")

_RENEWALS: Final = 3
"""Number of renewals, or attempts to acquire the lock, per lease time."""
_MARGIN: Final = 0.25
"""Final fraction of the lease in which no write is started, to allow for clock drift and slow calls."""
_PUBLISH_S: Final = 0.02
"""Minimum time between two publications of the indexing progress."""


@dataclass
class IndexingLeader:
    """Acquires the leader lock, and enables indexing while this server holds the lock.

    Attributes:
        in_store_thread: runs a job in the thread that owns the backlog and the change feed.
        hot_users: returns the users who were queried recently.
        on_query: called with the id of a user whose messages were queried at any server.
        on_work: called when there may be pending messages.
        terms: number of leadership terms of this server; a batch of an earlier term must not be written.
    """

    lock: PostgresLeaderLock
    feed: BacklogFeed
    in_store_thread: RunInStoreThread
    index: VectorIndex
    hot_users: Callable[[], Sequence[str]]
    on_query: Callable[[str], None]
    on_work: Callable[[], None]
    terms: int = field(default=0, init=False)
    _published: IndexProgress = field(default_factory=IndexProgress, init=False)
    _safe_until: float = field(default=0.0, init=False)
    _progressed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def may_write(self) -> bool:
        """Whether the lease lasts long enough to start a write."""
        return time.monotonic() < self._safe_until

    def record_progress(self) -> None:
        """Schedule the publication of the indexing progress."""
        self._progressed.set()

    def stop(self) -> None:
        """Publish the final indexing progress and end `run`. Call `stop` only after the last write to the index."""
        self._stopping.set()
        self._progressed.set()

    async def run(self) -> None:
        """Acquire the lock and lead, repeatedly, until `stop` is called."""
        try:
            while not self._stopping.is_set():
                try:
                    if await self.lock.acquire():
                        await self._lead_until_lost()
                except Fault as fault:
                    _log.debug("cannot lead the indexing of the shared vector index", cause=fault.message)
                    await self._handle_lost_lock()
                await _wait_for_event(self._stopping, self.lock.lease_s / _RENEWALS)
        finally:
            self._safe_until = 0.0
            await (self.lock.release() if self._stopping.is_set() else self.lock.disconnect())

    async def _lead_until_lost(self) -> None:
        """Lead until `stop` is called or the lock is lost."""
        if not await self.lock.was_released():
            await self._wait_for_previous_lease()
        await self._resume_or_start_over()
        due_at = await self._renew_lock()
        self.on_work()
        while not self._stopping.is_set():
            await self._publish_progress_until(due_at)
            due_at = await self._renew_lock()
        await self._publish_progress()

    async def _wait_for_previous_lease(self) -> None:
        """Wait until the lease of a previous leader that lost its connection has expired."""
        for _ in range(_RENEWALS):
            await _wait_for_event(self._stopping, self.lock.lease_s / _RENEWALS)
            await self.lock.renew()

    async def _resume_or_start_over(self) -> None:
        """Resume from the checkpoint, or start over if the engine has lost all points."""
        await self.lock.record_leader(
            self.feed.log_name, await self.in_store_thread(self.feed.backlog.read_followed_position), self.index.reset
        )
        state = await self.lock.read_checkpoint()
        is_begun = state.checkpoint.latest > 0
        if is_begun and await self.in_store_thread(self.feed.has_messages_to_index) and not await self.index.count():
            _log.error("the vector index has lost its points; rebuilding it from the message log")
            await self.lock.start_over()
            state = await self.lock.read_checkpoint()
        await self.lock.listen(self.on_query)
        await self.in_store_thread(partial(self.feed.start_leading, state.checkpoint, state.dead_letters))
        self.terms += 1
        self._published = IndexProgress()
        self.index.reconcile_requested.set()  # the previous leader may have been interrupted
        _log.info("this server became the indexing leader")

    async def _renew_lock(self) -> float:
        """Renew the lock, and return the time of the next renewal."""
        began_at = time.monotonic()
        await self.lock.renew()
        self._safe_until = began_at + self.lock.lease_s * (1 - _MARGIN)
        return began_at + self.lock.lease_s / _RENEWALS

    async def _handle_lost_lock(self) -> None:
        self._safe_until = 0.0
        await self.lock.disconnect()
        if self.feed.is_leading():
            await self.in_store_thread(self.feed.stop_leading)
            _log.info("this server is no longer the indexing leader")

    async def _publish_progress_until(self, due_at: float) -> None:
        while (left_s := due_at - time.monotonic()) > 0 and not self._stopping.is_set():
            self._progressed.clear()
            await self._publish_progress()
            await _wait_for_event(self._progressed, left_s)
            await _wait_for_event(self._stopping, _PUBLISH_S)

    async def _publish_progress(self) -> None:
        progress = await self.in_store_thread(partial(self.feed.read_progress, self.hot_users()))
        if progress != self._published:
            await self.lock.publish_progress(progress)
            self._published = progress


async def _wait_for_event(event: asyncio.Event, timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
