"""The index is found whole again although some of it has become another server's work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from vector.scripted import DIMENSION

from nomemory.server.log.position import BUCKETS, FeedPosition, LogIdentity, LogPosition
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.vector.backlog import Backlog
from nomemory.server.vector.backlog_reader import BacklogReader
from nomemory.server.vector.indexing_store import Desk
from nomemory.server.vector.upkeep import Upkeep


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


async def test_nobody_waits_for_a_bucket_that_was_given_up(tmp_path: Path) -> None:
    backlog, faults = Backlog(tmp_path / "vectors.db"), StandingFaults()
    desk = Desk(cast("Any", Feed()), backlog, DIMENSION, None)
    desk.followed()
    desk.hold({0: 5, 1: 5}, ())
    index = cast("Any", type("Index", (), {"suspect": asyncio.Event()}))
    progress = BacklogReader(tmp_path / "vectors.db")
    upkeep = Upkeep(index, desk, cast("Any", at_once), progress, 1000, faults, lambda: None)
    running = asyncio.create_task(upkeep.run(is_begun_anew=True))
    await asyncio.sleep(0)
    assert faults.all()
    desk.let_go([1])
    backlog.feed([], FeedPosition((7,) + (0,) * (BUCKETS - 1)))
    async with asyncio.timeout(15):
        while faults.all():  # noqa: ASYNC110 - a state of another part
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    progress.close()
    backlog.close()
