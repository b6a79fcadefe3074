"""Leader election among servers that share a vector index: one of them at a time fills it."""

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
"""How often the lock is renewed, or requested, within its lease."""
_MARGIN: Final = 0.25
"""Nothing new is started in this last part of the lease: clocks differ, and calls take time."""
_PUBLISH_S: Final = 0.02
"""Minimum time between two publications."""


@dataclass
class IndexingLeader:
    """Waits for the lock, and has this server's indexer fill the index while it is held.

    Attributes:
        lock: its holder fills the index.
        feed: the backlog and the log.
        in_store_thread: runs what concerns the backlog and the log, in their thread.
        index: the index.
        hot_users: returns the users who are being queried.
        on_query: called with users who are being queried at another server.
        on_work: called when there may be work.
        terms: how often this server became the leader. Work of a former term may be done by another server.
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
        """Whether this server holds the lock long enough to write to the index."""
        return time.monotonic() < self._safe_until

    def record_progress(self) -> None:
        """Publish the progress soon."""
        self._progressed.set()

    def stop(self) -> None:
        """Have `run` end after it has published the progress. Nothing is being written any more."""
        self._stopping.set()
        self._progressed.set()

    async def run(self) -> None:
        """Work until `stop`. While the database is unavailable nothing is filled, and the lock is requested again."""
        try:
            while not self._stopping.is_set():
                try:
                    if await self.lock.acquire():
                        await self._lead()
                except Fault as fault:
                    _log.debug("the vector index cannot be filled", cause=fault.message)
                    await self._lose()
                await _wait(self._stopping, self.lock.lease_s / _RENEWALS)
        finally:
            self._safe_until = 0.0
            await (self.lock.release() if self._stopping.is_set() else self.lock.lose())

    async def _lead(self) -> None:
        """Fill the index until `stop`, or until the lock is lost."""
        if not await self.lock.was_released():
            await self._outwait_former_leader()
        await self._begin()
        due_at = await self._renew()
        self.on_work()
        while not self._stopping.is_set():
            await self._publish_until(due_at)
            due_at = await self._renew()
        await self._publish()

    async def _outwait_former_leader(self) -> None:
        """Wait as long as a server that was cut off from the database may believe that it has the lock."""
        for _ in range(_RENEWALS):
            await _wait(self._stopping, self.lock.lease_s / _RENEWALS)
            await self.lock.renew()

    async def _begin(self) -> None:
        """Go on where the former leader was, or from the beginning if the engine has lost everything."""
        await self.lock.start(
            self.feed.log_name, await self.in_store_thread(self.feed.backlog.followed), self.index.reset
        )
        state = await self.lock.checkpoint()
        is_begun = state.checkpoint.latest > 0
        if is_begun and await self.in_store_thread(self.feed.log_has_points) and not await self.index.count():
            _log.error("the vector index is gone, and is built anew")
            await self.lock.start_over()
            state = await self.lock.checkpoint()
        await self.lock.listen(self.on_query)
        await self.in_store_thread(partial(self.feed.start_leading, state.checkpoint, state.dead_letters))
        self.terms += 1
        self._published = IndexProgress()
        self.index.suspect.set()  # the former leader may have been interrupted
        _log.info("the vector index is filled by this server")

    async def _renew(self) -> float:
        """Renew the lock; return when to do so again."""
        began_at = time.monotonic()
        await self.lock.renew()
        self._safe_until = began_at + self.lock.lease_s * (1 - _MARGIN)
        return began_at + self.lock.lease_s / _RENEWALS

    async def _lose(self) -> None:
        self._safe_until = 0.0
        await self.lock.lose()
        if self.feed.is_leading():
            await self.in_store_thread(self.feed.stop_leading)
            _log.info("the vector index is no longer filled by this server")

    async def _publish_until(self, due_at: float) -> None:
        while (left_s := due_at - time.monotonic()) > 0 and not self._stopping.is_set():
            self._progressed.clear()
            await self._publish()
            await _wait(self._progressed, left_s)
            await _wait(self._stopping, _PUBLISH_S)

    async def _publish(self) -> None:
        progress = await self.in_store_thread(partial(self.feed.progress, self.hot_users()))
        if progress != self._published:
            await self.lock.publish(progress)
            self._published = progress


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
