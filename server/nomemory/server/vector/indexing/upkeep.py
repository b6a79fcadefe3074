"""Keeps the vector index whole: it is compared with the log at the start, and whenever points may have been lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

from nomemory.server.faults import Fault
from nomemory.server.log.feed import Touched
from nomemory.server.processes.worker_errors import WorkerFailedError
from nomemory.server.standing_faults import INDEX_DAMAGED, VECTOR_INDEX, StandingFaults
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.indexing.backlog import BacklogReader
from nomemory.server.vector.indexing.comparison import (
    Comparison,
    ExpectedPoints,
    Findings,
    InStoreThread,
    Orphan,
    remove_orphans,
)
from nomemory.server.vector.indexing.store import IndexingStore
from nomemory.server.vector.protocol import VectorIndex

_log = get_logger("vectors")

_LOOK_S = 0.2
_RETRY_S, _PAUSE_S = 0.5, 10.0
"""Wait before a comparison that the engine did not answer is begun again, and between two of them at least."""
_FAILURES_MAX = 3
"""How often the engine may fail over what it has before that counts as damaged."""


@dataclass
class Upkeep:
    """Compares the index with the log, has what is missing indexed again, and compares it once more.

    An index that is not whole even then, or over which its engine fails again and again, is given up and built anew,
    unless other servers may fill it, too.

    Attributes:
        index: the index.
        store: the log and the backlog.
        in_store_thread: runs what concerns the store, in its thread.
        progress: how far the backlog is worked off.
        expected: compares the index with the log.
        faults: where it is noted that the index is damaged.
        work_came: called when there is work in the backlog.
    """

    index: VectorIndex
    store: IndexingStore
    in_store_thread: InStoreThread
    progress: BacklogReader
    expected: ExpectedPoints
    faults: StandingFaults
    work_came: Callable[[], None]
    _failures: int = field(default=0, init=False)
    _is_lost: bool = field(default=False, init=False)
    _looked: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def look(self) -> None:
        """Look, before anything is stored, whether the index has nothing: it is new, or was lost.

        Raises:
            Fault: INDEX_UNAVAILABLE, the engine does not answer.
        """
        if not self.store.is_shared and await self.in_store_thread(self.store.has_points):
            self._is_lost = not await self.index.count() and await self.in_store_thread(self.store.begin_empty)
        self._looked.set()

    async def run(self) -> None:
        """Once it has looked, work until it is cancelled."""
        await self._looked.wait()
        if self._is_lost:
            self._note_damage("the index was gone; it is being built anew")
            await self._worked_off()
        while True:
            self.index.suspect.clear()
            try:
                await self._make_whole()
            except Fault as fault:
                await self._failed(fault)
                await asyncio.sleep(_RETRY_S)
                continue
            self._failures = 0
            await asyncio.sleep(_PAUSE_S)
            await self.index.suspect.wait()

    async def _make_whole(self) -> None:
        found = await self._compared()
        if not found.is_whole:
            await self._worked_off()
            found = await self._compared()
        if not found.is_whole and not self.store.is_shared:
            await self._build_anew()
            found = await self._compared()
        if found.is_whole:
            self.faults.clear(VECTOR_INDEX)

    async def _compared(self) -> Findings:
        if not self.store.fills() or not await self.in_store_thread(self.store.has_points):
            return Findings()
        until = await self.in_store_thread(self.store.backlog.fed)
        found = await Comparison(
            self.index, self.expected, self.in_store_thread, until, self._take_again, self._remove_orphans
        ).run()
        if not self.store.fills():
            return Findings()  # another server fills it by now, and the backlog says nothing of its work
        say = _log.debug if found.is_whole else _log.error
        say("the vector index was compared with the log", **asdict(found))
        return found

    async def _take_again(self, wrong: Sequence[Touched]) -> None:
        if not self.store.fills():
            return
        self._note_damage("messages were missing in the index; they are being indexed again")
        await self.in_store_thread(partial(self.store.take_again, wrong))
        self.work_came()

    async def _remove_orphans(self, orphans: Sequence[Orphan]) -> None:
        if not self.store.fills():
            return
        self._note_damage("the index had vectors of messages that are gone; they are being removed")
        await remove_orphans(self.index, orphans)

    async def _failed(self, fault: Fault) -> None:
        """Build the index anew if its engine answers, but fails, several times in a row."""
        self._failures = self._failures + 1 if isinstance(fault.__cause__, WorkerFailedError) else 0
        if self._failures >= _FAILURES_MAX and not self.store.is_shared:
            self._failures = 0
            await self._build_anew()

    async def _build_anew(self) -> None:
        self._note_damage("the files of the index are damaged; it is being built anew")
        _log.error("the vector index is given up and built anew")
        await self.index.give_up()
        await self.in_store_thread(self.store.backlog.start_over)
        self.work_came()
        await self._worked_off()

    def _note_damage(self, detail: str) -> None:
        self.faults.stand(VECTOR_INDEX, INDEX_DAMAGED, detail)

    async def _worked_off(self) -> None:
        """Wait until everything that the log has now is in the index, or was set aside, or is another server's work."""
        until = await self.in_store_thread(self.store.reached)
        while self.store.fills() and not self.progress.checkpoint().has(until):  # noqa: ASYNC110 - a state on disk
            await asyncio.sleep(_LOOK_S)
