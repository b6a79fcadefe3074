"""Keep the vector index consistent: reconcile it with the log at the start, and whenever points may have been lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Final

from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.backlog import BacklogReader
from nomemory.server.indexing.vector.backlog_feed import BacklogFeed
from nomemory.server.indexing.vector.expected_points import ExpectedPoints, Orphan
from nomemory.server.indexing.vector.reconcile import (
    ReconcileReport,
    Reconciliation,
    RunInStoreThread,
    remove_orphans,
)
from nomemory.server.runtime.active_faults import INDEX_INCONSISTENT, VECTOR_INDEX, StandingFaults
from nomemory.server.runtime.processes.worker_errors import WorkerFailedError
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.protocol import VectorIndex
from nomemory.server.store.change_feed import Touched

_log = get_logger("vectors")

_POLL_S: Final = 0.2
_RETRY_S: Final = 0.5
"""Wait after the engine did not answer."""
_PAUSE_S: Final = 10.0
"""Minimum time between two reconciliations."""
_MAX_FAILURES: Final = 3
"""Consecutive failures of the engine after which its files count as damaged."""


@dataclass
class IndexMaintenance:
    """Reconciles the index with the log, has missing messages indexed again, and verifies the result.

    An index that is inconsistent even then, or whose engine fails repeatedly, is reset and rebuilt, unless several
    servers share it.

    Attributes:
        index: the index.
        feed: the backlog and the log.
        in_store_thread: runs what concerns the backlog and the log, in their thread.
        backlog: tells how far the backlog is.
        expected: computes the expected points.
        faults: where damage is recorded.
        on_work: called when there is work in the backlog.
    """

    index: VectorIndex
    feed: BacklogFeed
    in_store_thread: RunInStoreThread
    backlog: BacklogReader
    expected: ExpectedPoints
    faults: StandingFaults
    on_work: Callable[[], None]
    _failures: int = field(default=0, init=False)
    _is_lost: bool = field(default=False, init=False)
    _checked: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def check_for_loss(self) -> None:
        """Check, before anything is stored, whether the index is empty: it is new, or was lost.

        Raises:
            Fault: INDEX_UNAVAILABLE, the engine does not answer.
        """
        if not self.feed.is_shared and await self.in_store_thread(self.feed.log_has_points):
            self._is_lost = not await self.index.count() and await self.in_store_thread(self.feed.restart_empty)
        self._checked.set()

    async def run(self) -> None:
        """Work until cancelled, after `check_for_loss`."""
        await self._checked.wait()
        if self._is_lost:
            self._record_damage("the index was gone; it is being built anew")
            await self._catch_up()
        while True:
            self.index.suspect.clear()
            try:
                await self._repair()
            except Fault as fault:
                await self._record_failure(fault)
                await asyncio.sleep(_RETRY_S)
                continue
            self._failures = 0
            await asyncio.sleep(_PAUSE_S)
            await self.index.suspect.wait()

    async def _repair(self) -> None:
        report = await self._reconcile()
        if not report.is_consistent:
            await self._catch_up()
            report = await self._reconcile()
        if not report.is_consistent and not self.feed.is_shared:
            await self._rebuild()
            report = await self._reconcile()
        if report.is_consistent:
            self.faults.clear(VECTOR_INDEX)

    async def _reconcile(self) -> ReconcileReport:
        if not self.feed.is_leading() or not await self.in_store_thread(self.feed.log_has_points):
            return ReconcileReport()
        until = await self.in_store_thread(self.feed.backlog.fed)
        report = await Reconciliation(
            self.index, self.expected, self.in_store_thread, until, self._requeue, self._remove_orphans
        ).run()
        if not self.feed.is_leading():
            return ReconcileReport()  # another server fills it by now, and the backlog does not know of its work
        log = _log.debug if report.is_consistent else _log.error
        log("the vector index was compared with the log", **asdict(report))
        return report

    async def _requeue(self, mismatched: Sequence[Touched]) -> None:
        if not self.feed.is_leading():
            return
        self._record_damage("messages were missing in the index; they are being indexed again")
        await self.in_store_thread(partial(self.feed.requeue, mismatched))
        self.on_work()

    async def _remove_orphans(self, orphans: Sequence[Orphan]) -> None:
        if not self.feed.is_leading():
            return
        self._record_damage("the index had vectors of messages that are gone; they are being removed")
        await remove_orphans(self.index, orphans)

    async def _record_failure(self, fault: Fault) -> None:
        """Rebuild the index if its engine answers, but fails, several times in a row."""
        self._failures = self._failures + 1 if isinstance(fault.__cause__, WorkerFailedError) else 0
        if self._failures >= _MAX_FAILURES and not self.feed.is_shared:
            self._failures = 0
            await self._rebuild()

    async def _rebuild(self) -> None:
        self._record_damage("the files of the index are damaged; it is being built anew")
        _log.error("the vector index is damaged, and is built anew")
        await self.index.reset()
        await self.in_store_thread(self.feed.backlog.start_over)
        self.on_work()
        await self._catch_up()

    def _record_damage(self, detail: str) -> None:
        self.faults.stand(VECTOR_INDEX, INDEX_INCONSISTENT, detail)

    async def _catch_up(self) -> None:
        """Wait until everything that the log has now is in the index or a dead letter, or is another server's work."""
        until = await self.in_store_thread(self.feed.log_end)
        while self.feed.is_leading() and not self.backlog.checkpoint().has(until):  # noqa: ASYNC110 - a state on disk
            await asyncio.sleep(_POLL_S)
