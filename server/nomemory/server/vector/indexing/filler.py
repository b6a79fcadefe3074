"""The server's part in filling an index that several servers share: one of them at a time does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from nomemory.server.faults import Fault
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.indexing.comparison import InStoreThread
from nomemory.server.vector.indexing.store import IndexingStore
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.vector.space import Progress

if TYPE_CHECKING:
    from nomemory.server.vector.shared.postgres_index import PostgresFillerLock

_log = get_logger("vectors")

_RENEWALS: Final = 3
"""How often the lock is renewed, or asked for, within its time."""
_MARGIN: Final = 0.25
"""The part of the lock's time before whose end nothing new is begun: clocks differ, and calls take time."""
_PUBLISH_S: Final = 0.02
"""How long progress waits for more of it."""


@dataclass
class Filler:
    """Waits for the lock, and has this server's indexer fill the index while it is held.

    Attributes:
        lock: whose holder fills.
        store: the log and the backlog.
        in_store_thread: runs what concerns the store, in its thread.
        index: the index.
        hot_users: names the users who are being queried.
        note_query: is given users whom another server is queried about.
        work_came: called when there may be work.
        turns: how often this server has begun to fill. What was taken in hand in a turn before may be done by another.
    """

    lock: PostgresFillerLock
    store: IndexingStore
    in_store_thread: InStoreThread
    index: VectorIndex
    hot_users: Callable[[], Sequence[str]]
    note_query: Callable[[str], None]
    work_came: Callable[[], None]
    turns: int = field(default=0, init=False)
    _published: Progress = field(default_factory=Progress, init=False)
    _safe_until: float = field(default=0.0, init=False)
    _progressed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def may_write(self) -> bool:
        """Whether this server has the lock for a while yet, so that it may write to the index."""
        return time.monotonic() < self._safe_until

    def note_progress(self) -> None:
        """Have it published soon how far the index is."""
        self._progressed.set()

    def stop(self) -> None:
        """Have `run` end, when it has published the rest. Nothing is being written any more."""
        self._stopping.set()
        self._progressed.set()

    async def run(self) -> None:
        """Work until `stop`. While the database cannot be reached nothing is filled, and it is tried again."""
        try:
            while not self._stopping.is_set():
                try:
                    if await self.lock.take():
                        await self._fill()
                except Fault as fault:
                    _log.debug("the vector index cannot be filled", cause=fault.message)
                    await self._lose()
                await _wait(self._stopping, self.lock.lease_s / _RENEWALS)
        finally:
            self._safe_until = 0.0
            await (self.lock.leave() if self._stopping.is_set() else self.lock.lose())

    async def _fill(self) -> None:
        """Fill the index until `stop`, or until the lock is lost."""
        if not await self.lock.was_left():
            await self._outwait_the_one_before()
        await self._begin()
        due_at = await self._renew()
        self.work_came()
        while not self._stopping.is_set():
            await self._publish_until(due_at)
            due_at = await self._renew()
        await self._publish()

    async def _outwait_the_one_before(self) -> None:
        """Wait as long as a server that was cut off from the database may believe that it has the lock."""
        for _ in range(_RENEWALS):
            await _wait(self._stopping, self.lock.lease_s / _RENEWALS)
            await self.lock.renew()

    async def _begin(self) -> None:
        """Take up the work where the one before was, or anew where the engine has lost everything."""
        await self.lock.begin(
            self.store.log_name, await self.in_store_thread(self.store.backlog.followed), self.index.reset
        )
        filled = await self.lock.filled()
        is_begun = filled.checkpoint.latest > 0
        if is_begun and await self.in_store_thread(self.store.has_points) and not await self.index.count():
            _log.error("the vector index is gone, and is built anew")
            await self.lock.start_over()
            filled = await self.lock.filled()
        await self.lock.queried(self.note_query)
        await self.in_store_thread(partial(self.store.hold, filled.checkpoint, filled.aside))
        self.turns += 1
        self._published = Progress()
        self.index.suspect.set()  # who filled it before may have been in the middle of something
        _log.info("the vector index is filled by this server")

    async def _renew(self) -> float:
        """Keep the lock; return when to do so again."""
        began_at = time.monotonic()
        await self.lock.renew()
        self._safe_until = began_at + self.lock.lease_s * (1 - _MARGIN)
        return began_at + self.lock.lease_s / _RENEWALS

    async def _lose(self) -> None:
        self._safe_until = 0.0
        await self.lock.lose()
        if self.store.fills():
            await self.in_store_thread(self.store.let_go)
            _log.info("the vector index is no longer filled by this server")

    async def _publish_until(self, due_at: float) -> None:
        while (left_s := due_at - time.monotonic()) > 0 and not self._stopping.is_set():
            self._progressed.clear()
            await self._publish()
            await _wait(self._progressed, left_s)
            await _wait(self._stopping, _PUBLISH_S)

    async def _publish(self) -> None:
        progress = await self.in_store_thread(partial(self.store.progress, self.hot_users()))
        if progress != self._published:
            await self.lock.publish(progress)
            self._published = progress


async def _wait(event: asyncio.Event, longest_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await event.wait()
