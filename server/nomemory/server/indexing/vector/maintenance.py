"""Reconcile the vector index with the message log at startup and whenever points may have been lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Final

from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.backlog import BacklogReader
from nomemory.server.indexing.vector.backlog_feed import BacklogFeed
from nomemory.server.indexing.vector.expected_points import ExpectedPoints, OrphanedVersion
from nomemory.server.indexing.vector.reconcile import (
    Reconciliation,
    ReconciliationReport,
    RunInStoreThread,
    remove_orphans,
)
from nomemory.server.runtime.active_faults import INDEX_INCONSISTENT, VECTOR_INDEX, ActiveFaults
from nomemory.server.runtime.processes.worker_errors import WorkerFailedError
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.protocol import VectorIndex
from nomemory.server.store.change_feed import ChangeRef

_log = get_logger("vectors")

_POLL_S: Final = 0.2
_RETRY_S: Final = 0.5
"""Delay before retrying a reconciliation that failed."""
_PAUSE_S: Final = 10.0
"""Minimum time between two reconciliations."""
_MAX_FAILURES: Final = 3
"""Consecutive failures of the engine after which its files count as damaged."""


@dataclass
class IndexMaintenance:
    """Reconciles the vector index with the message log, requeues missing messages, and verifies the result.

    An index that is still inconsistent or whose engine fails repeatedly is rebuilt, unless several servers share the
    index.

    Attributes:
        in_store_thread: runs a job in the thread that owns the backlog and the change feed.
        faults: receives the fault if the vector index is damaged.
        on_work: called after messages were added to the backlog or the backlog was cleared.
    """

    index: VectorIndex
    feed: BacklogFeed
    in_store_thread: RunInStoreThread
    backlog: BacklogReader
    expected: ExpectedPoints
    faults: ActiveFaults
    on_work: Callable[[], None]
    _failures: int = field(default=0, init=False)
    _is_lost: bool = field(default=False, init=False)
    _checked: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def check_for_loss(self) -> None:
        """Check whether the index has lost all points, before any points are stored.

        Raises:
            Fault: INDEX_UNAVAILABLE, the engine is unavailable.
        """
        if not self.feed.is_shared and await self.in_store_thread(self.feed.has_messages_to_index):
            self._is_lost = not await self.index.count() and await self.in_store_thread(self.feed.record_empty_index)
        self._checked.set()

    async def run(self) -> None:
        """Wait for `check_for_loss`, then reconcile until cancelled."""
        await self._checked.wait()
        if self._is_lost:
            self._record_damage("the index was lost and is being rebuilt")
            await self._wait_until_caught_up()
        while True:
            self.index.reconcile_requested.clear()
            try:
                await self._repair()
            except Fault as fault:
                await self._record_failure(fault)
                await asyncio.sleep(_RETRY_S)
                continue
            self._failures = 0
            await asyncio.sleep(_PAUSE_S)
            await self.index.reconcile_requested.wait()

    async def _repair(self) -> None:
        report = await self._reconcile()
        if not report.is_consistent:
            await self._wait_until_caught_up()
            report = await self._reconcile()
        if not report.is_consistent and not self.feed.is_shared:
            await self._rebuild()
            report = await self._reconcile()
        if report.is_consistent:
            self.faults.clear(VECTOR_INDEX)

    async def _reconcile(self) -> ReconciliationReport:
        if not self.feed.is_leading() or not await self.in_store_thread(self.feed.has_messages_to_index):
            return ReconciliationReport()
        until = await self.in_store_thread(self.feed.backlog.read_feed_position)
        report = await Reconciliation(
            self.index, self.expected, self.in_store_thread, until, self._requeue_messages, self._remove_orphans
        ).run()
        if not self.feed.is_leading():
            return ReconciliationReport()  # another server has become the leader
        log = _log.debug if report.is_consistent else _log.error
        log("reconciled the vector index with the log", **asdict(report))
        return report

    async def _requeue_messages(self, mismatched: Sequence[ChangeRef]) -> None:
        if not self.feed.is_leading():
            return
        self._record_damage("messages were missing in the index and are being indexed again")
        await self.in_store_thread(partial(self.feed.requeue_changes, mismatched))
        self.on_work()

    async def _remove_orphans(self, orphans: Sequence[OrphanedVersion]) -> None:
        if not self.feed.is_leading():
            return
        self._record_damage("the index had vectors of deleted messages, which are being removed")
        await remove_orphans(self.index, orphans)

    async def _record_failure(self, fault: Fault) -> None:
        """Rebuild the index after several consecutive failures of a reachable engine."""
        self._failures = self._failures + 1 if isinstance(fault.__cause__, WorkerFailedError) else 0
        if self._failures >= _MAX_FAILURES and not self.feed.is_shared:
            self._failures = 0
            await self._rebuild()

    async def _rebuild(self) -> None:
        self._record_damage("the index files are damaged; the index is being rebuilt")
        _log.error("the vector index is damaged; rebuilding it from the message log")
        await self.index.reset()
        await self.in_store_thread(self.feed.backlog.start_over)
        self.on_work()
        await self._wait_until_caught_up()

    def _record_damage(self, detail: str) -> None:
        self.faults.report(VECTOR_INDEX, INDEX_INCONSISTENT, detail)

    async def _wait_until_caught_up(self) -> None:
        """Wait until the index has applied all current changes of the message log, or another server is the leader."""
        until = await self.in_store_thread(self.feed.read_log_end)
        while self.feed.is_leading() and not self.backlog.read_checkpoint().is_at_or_after(until):  # noqa: ASYNC110 - a state on disk
            await asyncio.sleep(_POLL_S)
