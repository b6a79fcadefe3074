"""Compare the vector index with the message log, and report missing, damaged and orphaned points."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol, TypeVar

from nomemory.server.indexing.vector.expected_points import ExpectedPoints, OrphanedVersion, PointDifferences
from nomemory.server.search.semantic.protocol import StoredPoints, VectorIndex
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.feed_position import FeedPosition

_T = TypeVar("_T")
_SAMPLE_EVERY: Final = 8
"""Interval, in pages of users, at which stored vectors are also checked for damage."""
_MAX_VERSIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class ReconciliationReport:
    """The result of comparing the vector index with the message log.

    Attributes:
        messages: number of messages that should have points.
        mismatched: number of messages with an unexpected number of points.
        invalid: number of damaged points, whose messages are also counted as mismatched.
        orphans: number of versions that have points but were removed from the message log.
    """

    messages: int = 0
    points: int = 0
    mismatched: int = 0
    invalid: int = 0
    orphans: int = 0

    def add(self, differences: PointDifferences, stored: StoredPoints) -> ReconciliationReport:
        """Return this report with the differences of more users added."""
        return ReconciliationReport(
            self.messages + differences.messages,
            self.points + sum(points.total() for points in stored.counts_by_user),
            self.mismatched + len(differences.mismatched),
            self.invalid + stored.invalid_count,
            self.orphans + len(differences.orphans),
        )

    @property
    def is_consistent(self) -> bool:
        """Whether no message is mismatched and no deleted version has points."""
        return not self.mismatched and not self.orphans


class RunInStoreThread(Protocol):
    """Runs a job in the thread that owns the change feed."""

    def __call__(self, job: Callable[[], _T], /) -> Awaitable[_T]:
        """Run a job and return its result."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Compares the points of all users with the message log. If a sampled vector is damaged, all vectors are checked.

    Attributes:
        until: message versions after this position are not compared.
        on_mismatch: called with batches of mismatched messages.
        on_orphans: called with batches of orphans.
    """

    index: VectorIndex
    expected: ExpectedPoints
    in_store_thread: RunInStoreThread
    until: FeedPosition
    on_mismatch: Callable[[Sequence[ChangeRef]], Awaitable[None]]
    on_orphans: Callable[[Sequence[OrphanedVersion]], Awaitable[None]]

    async def run(self) -> ReconciliationReport:
        """Compare the index with the message log.

        Raises:
            Fault: INDEX_UNAVAILABLE, the engine is unavailable.
        """
        report = await self._compare_all(_SAMPLE_EVERY)
        if not report.invalid:
            return report
        # The second pass does not count messages that the first one has requeued.
        full = await self._compare_all(1)
        mismatched, orphans = max(report.mismatched, full.mismatched), max(report.orphans, full.orphans)
        return replace(full, mismatched=mismatched, orphans=orphans)

    async def _compare_all(self, sample_every: int) -> ReconciliationReport:
        report, pages, after, seen = ReconciliationReport(), 0, "", set[str]()
        while users := await self.in_store_thread(partial(self.expected.list_users, after)):
            report = await self._compare_and_report(report, users, with_vectors=pages % sample_every == 0)
            seen.update(users)
            after, pages = users[-1], pages + 1
        if unknown_users := sorted(await self.index.list_users() - seen):
            report = await self._compare_and_report(report, unknown_users, with_vectors=False)
        return report

    async def _compare_and_report(
        self, report: ReconciliationReport, users: Sequence[str], *, with_vectors: bool
    ) -> ReconciliationReport:
        stored, differences = await self._compare(users, with_vectors=with_vectors)
        if differences.mismatched:
            await self.on_mismatch(differences.mismatched)
        if differences.orphans:
            await self.on_orphans(differences.orphans)
        return report.add(differences, stored)

    async def _compare(self, users: Sequence[str], *, with_vectors: bool) -> tuple[StoredPoints, PointDifferences]:
        """Compare users twice and keep only differences found both times, because the index may change meanwhile."""
        stored, first = await self._compare_once(users, with_vectors=with_vectors)
        if not first.mismatched and not first.orphans:
            return stored, first
        stored, second = await self._compare_once(users, with_vectors=with_vectors)
        confirmed = {*first.mismatched, *first.orphans}
        mismatched = [change for change in second.mismatched if change in confirmed]
        orphans = [orphan for orphan in second.orphans if orphan in confirmed]
        return stored, second._replace(mismatched=mismatched, orphans=orphans)

    async def _compare_once(self, users: Sequence[str], *, with_vectors: bool) -> tuple[StoredPoints, PointDifferences]:
        stored = await self.index.read_points(users, with_vectors=with_vectors)
        return stored, await self.in_store_thread(
            partial(self.expected.compare_users, users, stored.counts_by_user, self.until)
        )


async def remove_orphans(index: VectorIndex, orphans: Sequence[OrphanedVersion]) -> None:
    """Remove the points of versions that were removed from the message log.

    Raises:
        Fault: INDEX_UNAVAILABLE, the engine is unavailable.
    """
    for user_id, group in groupby(sorted(orphans), key=attrgetter("user_id")):
        sequences = [orphan.sequence for orphan in group]
        for start in range(0, len(sequences), _MAX_VERSIONS):
            await index.remove_versions(user_id, sequences[start : start + _MAX_VERSIONS])
