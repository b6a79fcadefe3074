"""Tests that a failed erasure is retried immediately."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from nomemory.server.runtime.settings import Settings
from nomemory.server.store.erasure import ErasableIndexes, ErasureTask
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.results import PendingRemovals


class NothingLeftError(Exception):
    """Raised to end the job."""


class Log:
    """A log with one removal until it is forgotten."""

    def __init__(self) -> None:
        self.is_done = False

    async def read_pending_removals(self, _minimum: int) -> PendingRemovals | None:
        if self.is_done:
            raise NothingLeftError
        return PendingRemovals(FeedPosition.from_sequence(5), are_many=False)

    async def delete_removals(self, _until: int, _limit: int) -> bool:
        self.is_done = True
        return False

    async def release_free_pages(self, _limit: int) -> bool:
        return False

    async def overwrite_unused_bytes(self, _after: int, _limit: int) -> int | None:
        return None


class FailsOnce:
    """Indexes whose engine fails during the first erasure."""

    def __init__(self) -> None:
        self.times = 0

    async def find_lagging_index(self, _until: FeedPosition) -> str:
        return ""

    async def erase_vectors(self) -> str:
        return ""

    async def erase_deleted(self) -> None:
        self.times += 1
        if self.times == 1:
            raise ConnectionError


async def test_failed_erasure_is_retried_until_it_succeeds(tmp_path: Path) -> None:
    indexes, log = FailsOnce(), Log()
    settings = Settings.from_environment(data=tmp_path, erase_within_s=1e6)
    erasure = ErasureTask(cast("Any", log), cast("ErasableIndexes", indexes), settings)
    with pytest.raises(ConnectionError):
        await erasure.run()
    with pytest.raises(NothingLeftError):
        await erasure.run()
    assert (indexes.times, log.is_done) == (2, True)
