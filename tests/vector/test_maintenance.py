"""Reconciliation of the index with the log during concurrent changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from vector.scripted_embedder import DIMENSION

from nomemory.server.indexing.vector.backlog import Backlog, BacklogReader
from nomemory.server.indexing.vector.backlog_feed import BacklogFeed
from nomemory.server.indexing.vector.expected_points import ExpectedPoints, OrphanedVersion, PointDifferences
from nomemory.server.indexing.vector.maintenance import IndexMaintenance
from nomemory.server.indexing.vector.reconcile import Reconciliation
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.search.semantic.protocol import StoredPoints
from nomemory.server.store.buckets import BUCKETS
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity, LogPosition

LATE, LOST = ChangeRef(1, "u", "late"), ChangeRef(2, "u", "lost")


class Expected:
    """Expected points that report unread messages as mismatched, and read ones as orphans."""

    def list_users(self, after: str) -> list[str]:
        return [] if after else ["u"]

    def compare_users(self, _users: Sequence[str], stored: Sequence[Counter[int]], _until: int) -> PointDifferences:
        orphans = [item for item in (ORPHAN, LEAVING) if item.sequence in stored[0]]
        return PointDifferences(2, [item for item in (LATE, LOST) if item.sequence not in stored[0]], orphans)


ORPHAN, LEAVING = OrphanedVersion("u", 3), OrphanedVersion("u", 4)


async def here(job: Callable[[], Any], /) -> Any:  # noqa: ANN401 - whatever the job returns
    return job()


async def test_concurrent_index_changes_are_not_differences() -> None:
    reads = iter([StoredPoints([Counter({3: 1, 4: 1})], 0), StoredPoints([Counter({1: 1, 3: 1})], 0)])
    reported, cleared = list[ChangeRef](), list[OrphanedVersion]()

    class Index:
        async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
            assert (with_vectors, user_ids) == (True, ["u"])
            return next(reads)

        async def list_users(self) -> set[str]:
            return {"u"}

    async def report(wrong: Sequence[ChangeRef]) -> None:
        reported.extend(wrong)

    async def clear(orphans: Sequence[OrphanedVersion]) -> None:
        cleared.extend(orphans)

    expected, until = cast("ExpectedPoints", Expected()), FeedPosition.from_sequence(2)
    differences = await Reconciliation(cast("Any", Index()), expected, here, until, report, clear).run()
    assert (differences.mismatched, reported) == (1, [LOST])
    assert (differences.orphans, cleared) == (1, [ORPHAN])


class Feed:
    """An empty log with the same sequence in all buckets."""

    def read_position(self) -> LogPosition:
        return LogPosition(LogIdentity("log"), 7)

    def read_sequence(self) -> int:
        return 7

    def read_end_position(self) -> FeedPosition:
        return FeedPosition((7,) * BUCKETS)

    def has_messages(self, *, caller_vectors_only: bool) -> bool:
        return caller_vectors_only and False


async def at_once(job: Callable[[], object]) -> object:
    return job()


async def test_catch_up_ends_when_leadership_is_lost(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path / "vectors.db")
    feed = BacklogFeed(cast("Any", Feed()), backlog, DIMENSION, None, is_shared=True)
    feed.start_leading(FeedPosition((5,) * BUCKETS), ())
    index = cast("Any", type("Index", (), {"suspect": asyncio.Event()}))
    progress = BacklogReader(tmp_path / "vectors.db")
    maintenance = IndexMaintenance(
        index, feed, cast("Any", at_once), progress, feed.make_expected_points(1000), ActiveFaults(), lambda: None
    )
    waiting = asyncio.create_task(maintenance._wait_until_caught_up())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    feed.stop_leading()
    async with asyncio.timeout(15):
        await waiting
    progress.close()
    backlog.close()
