"""The index is found whole again although it has become another server's work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from vector.scripted import DIMENSION

from nomemory.server.log.bucket import BUCKETS
from nomemory.server.log.feed_position import FeedPosition
from nomemory.server.log.identity import LogIdentity, LogPosition
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.vector.indexing.backlog import Backlog
from nomemory.server.vector.indexing.backlog_reader import BacklogReader
from nomemory.server.vector.indexing.store import IndexingStore
from nomemory.server.vector.indexing.upkeep import Upkeep


class Feed:
    """A log that is at the same sequence in all buckets, and has no messages."""

    def position(self) -> LogPosition:
        return LogPosition(LogIdentity("log"), 7)

    def sequence(self) -> int:
        return 7

    def reached(self) -> FeedPosition:
        return FeedPosition((7,) * BUCKETS)

    def has_points(self, *, own_vectors_only: bool) -> bool:
        return own_vectors_only and False


async def at_once(job: Callable[[], object]) -> object:
    return job()


async def test_nobody_waits_for_work_that_was_given_up(tmp_path: Path) -> None:
    backlog, faults = Backlog(tmp_path / "vectors.db"), StandingFaults()
    store = IndexingStore(cast("Any", Feed()), backlog, DIMENSION, None, is_shared=True)
    store.hold(FeedPosition((5,) * BUCKETS), ())
    index = cast("Any", type("Index", (), {"suspect": asyncio.Event()}))
    progress = BacklogReader(tmp_path / "vectors.db")
    upkeep = Upkeep(index, store, cast("Any", at_once), progress, 1000, faults, lambda: None)
    running = asyncio.create_task(upkeep.run(is_begun_anew=True))
    await asyncio.sleep(0)
    assert faults.all()
    store.let_go()
    async with asyncio.timeout(15):
        while faults.all():  # noqa: ASYNC110 - a state of another part
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    progress.close()
    backlog.close()
