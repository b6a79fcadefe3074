"""Erasure from the files of the embedded index by compaction during operation."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from allocated_bytes import allocated_bytes

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault
from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.search.semantic.edge import index as edge_index
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.edge.messages import NearestQuery
from nomemory.server.search.semantic.edge.shard import NotCompactingError, Shard
from nomemory.server.search.semantic.edge.shard_directory import ShardDirectory
from nomemory.server.search.semantic.protocol import InsufficientSpaceError, VectorPoint

DIMENSION = 8
USERS = [f"u{number}" for number in range(12)]
PAUSE_S = 0.01


def vector(seed: int) -> Vector:
    numbers = np.random.default_rng(seed).standard_normal(DIMENSION)
    return (numbers / np.linalg.norm(numbers)).astype("<f4").tobytes()


def point(user_id: str, number: int, sequence: int | None = None) -> VectorPoint:
    sequence = number if sequence is None else sequence
    return VectorPoint(user_id, f"m{number}", 0, sequence, number, Role.USER, "c", vector(sequence))


def opened(directory: Path) -> EdgeIndex:
    return EdgeIndex(directory / "edge", DIMENSION, timeout_s=20)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a shard with twenty messages of each user."""
    directory = tmp_path_factory.mktemp("filled")

    async def fill() -> None:
        index = opened(directory)
        await index.upsert([point(user_id, number) for user_id in USERS for number in range(20)])
        await index.close()

    asyncio.run(fill())
    return directory


@pytest.fixture
async def index(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EdgeIndex]:
    """Return an index on a copy of the shard, with small compaction pages."""
    monkeypatch.setattr(edge_index, "_COMPACTION_PAGE", 20)
    shutil.copytree(filled / "edge", tmp_path / "edge")
    index = opened(tmp_path)
    yield index
    await index.close()


async def stored(index: EdgeIndex) -> dict[str, Counter[int]]:
    """Return the sequences of each user's points, after comparing them with searches."""
    read = await index.read_points(USERS, with_vectors=True)
    assert read.invalid_count == 0
    by_user = dict(zip(USERS, read.counts_by_user, strict=True))
    for user_id in USERS:
        hits = await index.search(user_id, vector(1), EVERYTHING, 1000)
        assert Counter(hit.sequence for hit in hits) == by_user[user_id]
    return by_user


def expected(numbers: range = range(20)) -> dict[str, Counter[int]]:
    return {user_id: Counter(numbers) for user_id in USERS}


def versions(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "edge").iterdir() if path.is_dir())


def remaining(directory: Path, vectors: list[bytes]) -> int:
    content = b"".join(allocated_bytes(file) for file in directory.rglob("*") if file.is_file())
    return sum(vector in content for vector in vectors)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - what is waited for is a state
            await asyncio.sleep(0.001)


async def until_readable(index: EdgeIndex) -> dict[str, Counter[int]]:
    while True:
        with contextlib.suppress(Fault):
            return await stored(index)
        await asyncio.sleep(PAUSE_S)


async def test_compaction_erases_removed_vectors_from_all_files(index: EdgeIndex, tmp_path: Path) -> None:
    for user_id in USERS:
        await index.upsert([point(user_id, 50, sequence=5000 + int(user_id[1:]))])
        await index.remove(user_id, "m50")
    await index.flush()
    gone = [vector(5000 + number) for number in range(len(USERS))]
    assert remaining(tmp_path, gone) == len(USERS)
    await index.erase_deleted()
    assert index.reconcile_requested.is_set(), "the copy must be compared with the message log"
    assert await stored(index) == expected()
    assert versions(tmp_path) == ["2"]
    await index.close()
    assert remaining(tmp_path, gone) == 0
    again = opened(tmp_path)
    assert await stored(again) == expected()
    await again.close()


async def test_writes_during_a_compaction_are_copied(index: EdgeIndex) -> None:
    erasing = asyncio.create_task(index.erase_deleted())
    number, writers = 0, USERS[:3]
    while not erasing.done():
        for user_id in writers:
            await index.upsert([point(user_id, 100 + number), point(user_id, number % 20, 1000 + number)])
            await index.remove(user_id, f"m{(number + 10) % 20}")
        number += 1
        await asyncio.sleep(PAUSE_S)
    await erasing
    current = {f"m{n}": n for n in range(20)}
    for n in range(number):
        current |= {f"m{100 + n}": 100 + n, f"m{n % 20}": 1000 + n}
        current.pop(f"m{(n + 10) % 20}", None)
    assert number > 1
    assert await stored(index) == expected() | {user_id: Counter(current.values()) for user_id in writers}


async def test_searches_work_during_a_compaction(index: EdgeIndex) -> None:
    erasing = asyncio.create_task(index.erase_deleted())
    searches = 0
    while not erasing.done():
        assert len(await index.search(USERS[searches % len(USERS)], vector(1), EVERYTHING, 1000)) == 20
        searches += 1
        await asyncio.sleep(PAUSE_S)
    await erasing
    assert searches > 1


async def test_a_killed_compaction_leaves_the_shard_unchanged(index: EdgeIndex, tmp_path: Path) -> None:
    await index.count()
    erasing = asyncio.create_task(index.erase_deleted())
    await until(lambda: versions(tmp_path) == ["1", "2"])
    assert index.process_id is not None
    os.kill(index.process_id, signal.SIGKILL)
    with contextlib.suppress(Fault):  # the compaction may have been complete
        await erasing
    assert await until_readable(index) == expected()
    assert len(versions(tmp_path)) == 1
    await index.erase_deleted()
    assert await stored(index) == expected()


async def test_a_compaction_stops_when_the_disk_is_full(
    index: EdgeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = 0

    def require(_shard: Path, _points: int, _dimension: int, _min_free_bytes: int) -> None:
        nonlocal pages
        pages += 1
        if pages > 3:
            raise InsufficientSpaceError("a disk")

    monkeypatch.setattr(edge_index, "require_points_space", require)
    with pytest.raises(InsufficientSpaceError, match="a disk"):
        await index.erase_deleted()
    assert versions(tmp_path) == ["1"]
    assert await stored(index) == expected()


async def test_a_compaction_that_does_not_fit_on_the_disk_is_not_started(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "edge", tmp_path / "edge")
    index = EdgeIndex(tmp_path / "edge", DIMENSION, timeout_s=20, min_free_bytes=1 << 60)
    with pytest.raises(InsufficientSpaceError, match="MiB"):
        await index.erase_deleted()
    assert index.process_id is None
    await index.close()


async def test_erasing_a_missing_index_starts_no_worker(tmp_path: Path) -> None:
    index = opened(tmp_path)
    await index.erase_deleted()
    assert index.process_id is None
    await index.close()


def test_a_write_that_fails_in_the_copy_cancels_the_compaction(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "edge", tmp_path / "edge")
    shard = Shard(tmp_path / "edge", DIMENSION)
    shard.start_compaction()
    assert shard._compaction is not None
    shard._compaction.target = cast("Any", FullDisk())
    with pytest.raises(OSError, match="full"):
        shard.upsert([point("u0", 20)])
    with pytest.raises(NotCompactingError):
        shard.compact_page(10)
    shard.upsert([point("u0", 20)])
    query = NearestQuery(vector(1), (), 1000)
    assert len(shard.search([query])[0]) == 20 * len(USERS) + 1
    shard.close()
    assert versions(tmp_path) == ["1"]


class FullDisk:
    """A fake engine for the copy."""

    def update(self, _operation: object) -> None:
        raise OSError("the disk is full")

    def close(self) -> None:
        """Do nothing."""


def test_versions_replace_each_other_in_one_step(tmp_path: Path) -> None:
    directory = ShardDirectory(tmp_path / "edge")
    assert directory.find_current_version() is None
    for number in (1, 2):
        new = directory.create_version_path()
        assert new == tmp_path / "edge" / str(number)
        new.mkdir()
        directory.set_current_version(new)
        assert directory.find_current_version() == new
    assert directory.create_version_path().name == "3"
    directory.remove_unused_versions()
    assert versions(tmp_path) == ["2"]


@pytest.mark.parametrize("content", ["", "3", "../edge/1", "²"])
def test_a_malformed_version_file_counts_as_no_shard(tmp_path: Path, content: str) -> None:
    (tmp_path / "edge" / "1").mkdir(parents=True)
    (tmp_path / "edge" / "current").write_text(content)
    assert ShardDirectory(tmp_path / "edge").find_current_version() is None


def test_an_unreadable_version_file_discards_nothing(tmp_path: Path) -> None:
    (tmp_path / "edge" / "1").mkdir(parents=True)
    (tmp_path / "edge" / "current").mkdir()  # reading a directory as a file fails, even for root
    with pytest.raises(IsADirectoryError):
        ShardDirectory(tmp_path / "edge").remove_unused_versions()
    assert versions(tmp_path) == ["1", "current"]
