"""The embedded index in several shards: it is spread while it serves, and whatever happens, nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
from written import written

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import EVERYTHING, Role
from nomemory.server.standing_faults import VECTOR_ENGINE
from nomemory.server.vector.edge import shards as edge_shards
from nomemory.server.vector.edge.index import EdgeIndex
from nomemory.server.vector.edge.layout import SHARDS_MAX, ShardLayout, shard_of
from nomemory.server.vector.edge.shards import EdgeShards, Growth, ShardSet, shards_for
from nomemory.server.vector.protocol import NoRoomError, VectorPoint

DIMENSION = 8
USERS = [f"u{number}" for number in range(12)]
PAUSE_S = 0.01
"""Between two calls while an index is spread: without it the spreading waits behind them."""


def vector(seed: int) -> Vector:
    numbers = np.random.default_rng(seed).standard_normal(DIMENSION)
    return (numbers / np.linalg.norm(numbers)).astype("<f4").tobytes()


def point(user_id: str, number: int, sequence: int | None = None) -> VectorPoint:
    sequence = number if sequence is None else sequence
    return VectorPoint(user_id, f"m{number}", 0, sequence, number, Role.USER, "c", vector(sequence))


def open_shard(directory: Path, *, part: str) -> EdgeIndex:
    return EdgeIndex(directory, DIMENSION, timeout_s=20, part=part, pack_points=100)


def opened(directory: Path) -> EdgeShards:
    return EdgeShards(directory / "shard", DIMENSION, open_shard)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One shard, as the version before made it."""
    directory = tmp_path_factory.mktemp("before") / "shard"

    async def filled() -> None:
        index = EdgeIndex(directory, DIMENSION, timeout_s=20)
        await index.upsert([point(user_id, number) for user_id in USERS for number in range(20)])
        await index.close()

    asyncio.run(filled())
    return directory


@pytest.fixture
async def index(before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EdgeShards]:
    """A copy of that shard, opened; it is spread in many pieces."""
    monkeypatch.setattr(edge_shards, "_PIECE_MAX", 30)
    shutil.copytree(before, tmp_path / "shard")
    index = opened(tmp_path)
    yield index
    await index.close()


async def held(index: EdgeShards) -> dict[str, Counter[int]]:
    """Return what each user's searches find, which is what is stored of them."""
    read = await index.read_points(USERS, with_vectors=True)
    assert read.unsound == 0
    stored = dict(zip(USERS, read.by_user, strict=True))
    for user_id in USERS:
        hits = await index.search(user_id, vector(1), EVERYTHING, 1000)
        assert Counter(hit.sequence for hit in hits) == stored[user_id]
    return stored


def expected(numbers: range = range(20)) -> dict[str, Counter[int]]:
    return {user_id: Counter(numbers) for user_id in USERS}


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - what is waited for is a state
            await asyncio.sleep(0.005)


async def test_a_shard_of_the_version_before_is_spread_and_each_user_is_in_one_shard(
    index: EdgeShards, tmp_path: Path
) -> None:
    assert await held(index) == expected()
    await index.spread(3)
    assert index.shards == 3
    assert index.suspect.is_set(), "the new shards are to be compared with the log"
    assert await held(index) == expected()
    for number, shard in enumerate(index._used.shards):
        users = [user_id for user_id in USERS if shard_of(user_id, 3) == number]
        assert users
        assert await shard.count() == 20 * len(users)
    assert names(tmp_path) == ["shards-1"]
    await index.close()
    again = opened(tmp_path)
    assert again.shards == 3
    assert await held(again) == expected()
    (kept,) = await again.stored("u3", "m7", 7)
    assert np.allclose(np.frombuffer(kept, "<f4"), np.frombuffer(vector(7), "<f4"), atol=1e-6)
    await again.close()


async def test_what_is_written_and_removed_while_it_is_spread_is_so_afterwards(index: EdgeShards) -> None:
    spreading = asyncio.create_task(index.spread(3))
    number, writers = 0, USERS[:3]
    while not spreading.done():
        for user_id in writers:
            await index.upsert([point(user_id, 100 + number), point(user_id, number % 20, 1000 + number)])
            await index.remove(user_id, f"m{(number + 10) % 20}")
        number += 1
        await asyncio.sleep(PAUSE_S)
    await spreading
    held_now = {f"m{n}": n for n in range(20)}
    for n in range(number):
        held_now |= {f"m{100 + n}": 100 + n, f"m{n % 20}": 1000 + n}
        held_now.pop(f"m{(n + 10) % 20}", None)
    assert number > 1
    assert await held(index) == expected() | {user_id: Counter(held_now.values()) for user_id in writers}


async def test_searches_are_answered_while_it_is_spread(index: EdgeShards) -> None:
    spreading = asyncio.create_task(index.spread(2))
    searches = 0
    while not spreading.done():
        hits = await index.search(USERS[searches % len(USERS)], vector(1), EVERYTHING, 1000)
        assert len(hits) == 20
        searches += 1
        await asyncio.sleep(PAUSE_S)
    await spreading
    assert searches > 1


@pytest.mark.parametrize("how", ["cancelled", "engine killed", "new engine killed", "given up"])
async def test_a_spreading_that_is_cut_short_leaves_all_as_it_was(index: EdgeShards, tmp_path: Path, how: str) -> None:
    began = asyncio.create_task(index.spread(3))
    await until(lambda: index._next is not None and any(shard.process_id for shard in index._next.shards))
    assert index._next is not None
    if how == "cancelled":
        began.cancel()
    elif how == "given up":
        index._next = None  # as a write does that does not reach the new shards
    else:
        shards = index._used.shards if how == "engine killed" else index._next.shards
        await until(lambda: any(shard.process_id for shard in shards))
        for shard in shards:
            if shard.process_id is not None:
                os.kill(shard.process_id, signal.SIGKILL)
    with contextlib.suppress(Fault, asyncio.CancelledError):
        await began
    if index.shards == 1:
        assert [name for name in names(tmp_path) if name.startswith("shards")] == []
    await until_whole(index)
    if index.shards == 1:
        await index.spread(3)
    assert await held(index) == expected()


async def until_whole(index: EdgeShards) -> None:
    while True:
        with contextlib.suppress(Fault):
            assert await held(index) == expected()
            return
        await asyncio.sleep(PAUSE_S)


async def test_a_write_that_does_not_reach_the_new_shards_is_stored_all_the_same(
    index: EdgeShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.create_task(index.spread(3))
    await until(lambda: index._next is not None)
    new = index._next
    store = ShardSet.store

    async def failing(shards: ShardSet, usable: list[VectorPoint]) -> None:
        if shards is new:
            raise Fault(0, "it does not answer")  # type: ignore[arg-type] # any reason
        await store(shards, usable)

    monkeypatch.setattr(ShardSet, "store", failing)
    await index.upsert([point(user_id, 20) for user_id in USERS])
    with pytest.raises(Fault, match="a write did not reach"):
        await began
    assert index.shards == 1
    assert await held(index) == expected(range(21))


@pytest.mark.parametrize("is_in_one", [True, False])
async def test_a_write_that_is_cancelled_is_not_missed_in_the_new_shards(
    index: EdgeShards, monkeypatch: pytest.MonkeyPatch, *, is_in_one: bool
) -> None:
    began = asyncio.create_task(index.spread(3))
    await until(lambda: index._next is not None)
    new, reached = index._next, asyncio.Event()
    store = ShardSet.store

    async def waiting(shards: ShardSet, usable: list[VectorPoint]) -> None:
        if shards is not new:
            await store(shards, usable)
        if (shards is new) == is_in_one:
            reached.set()
            await asyncio.Event().wait()

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ShardSet, "store", waiting)
        writing = asyncio.create_task(index.upsert([point(user_id, 20) for user_id in USERS]))
        await reached.wait()
        writing.cancel()
        await asyncio.wait([writing])
    with pytest.raises(Fault, match="a write did not reach"):
        await began
    assert await held(index) == expected(range(21))


@pytest.mark.parametrize("begins", ["a spreading", "an erasure"])
async def test_what_a_spreading_left_on_the_disk_is_deleted(index: EdgeShards, tmp_path: Path, begins: str) -> None:
    left = ShardLayout(tmp_path / "shard").begin(2)[0]
    left.mkdir()
    (left / "left").write_bytes(vector(1))
    if begins == "an erasure":
        await index.wipe_removed()
    else:
        index._free_bytes_min = 1 << 60
        with pytest.raises(NoRoomError):
            await index.spread(3)
    assert not (left / "left").exists()
    assert await held(index) == expected()


async def test_a_spreading_ends_when_the_disk_gets_full(
    index: EdgeShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[int] = []

    def demand(_directory: Path, size: int, _free_bytes_min: int) -> None:
        pieces.append(size)
        if len(pieces) > 3:
            raise NoRoomError("a disk")

    monkeypatch.setattr(edge_shards, "demand_room", demand)
    with pytest.raises(NoRoomError, match="a disk"):
        await index.spread(2)
    assert len(pieces) == 4, "for all, and for three pieces"
    assert not [name for name in names(tmp_path) if name.startswith("shards")]
    assert await held(index) == expected()


async def test_a_shard_that_failed_and_is_gone_is_not_what_is_given_up(index: EdgeShards) -> None:
    (gone,) = index._used.shards
    await index.spread(2)
    with pytest.raises(Fault):
        await index._looked_at(gone, USERS, with_vectors=False)  # as a comparison does that began before
    await index.give_up()
    while True:
        with contextlib.suppress(Fault):
            assert await held(index) == expected(range(0))
            break
        await asyncio.sleep(PAUSE_S)


async def test_only_the_shard_that_cannot_be_read_is_given_up(
    index: EdgeShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index.spread(3)
    damaged = index._used.of("u0")

    async def fails(*_: object, **__: object) -> None:
        raise Fault(0, "it does not answer")  # type: ignore[arg-type] # any reason

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(damaged, "read_points", fails)
        with pytest.raises(Fault):
            await index.read_points(USERS, with_vectors=False)
    await index.give_up()
    lost = {user_id for user_id in USERS if index._used.of(user_id) is damaged}
    while True:
        with contextlib.suppress(Fault):
            stored = await held(index)
            break
        await asyncio.sleep(PAUSE_S)
    assert stored == {user_id: Counter() if user_id in lost else Counter(range(20)) for user_id in USERS}
    assert await index.count() == 20 * (len(USERS) - len(lost)) > 0


@pytest.mark.parametrize("shards", [1, 2])
async def test_removed_vectors_leave_the_files_of_every_shard(index: EdgeShards, tmp_path: Path, shards: int) -> None:
    if shards > 1:
        await index.spread(shards)
    for user_id in USERS:
        await index.upsert([point(user_id, 50, sequence=5000 + int(user_id[1:]))])
        await index.remove(user_id, "m50")
    await index.flush()
    gone = [vector(5000 + number) for number in range(len(USERS))]
    assert remaining(tmp_path, gone) == len(USERS)
    await index.wipe_removed()
    assert await held(index) == expected()
    assert index.shards == shards
    await index.close()
    assert remaining(tmp_path, gone) == 0


async def test_an_erasure_leaves_as_many_shards_as_an_index_has_grown_to(index: EdgeShards) -> None:
    await asyncio.gather(index.spread(2), index.wipe_removed())
    assert index.shards == 2
    assert await held(index) == expected()


def remaining(directory: Path, vectors: list[bytes]) -> int:
    held_bytes = b"".join(written(file) for file in directory.rglob("*") if file.is_file())
    return sum(one in held_bytes for one in vectors)


async def test_each_process_has_a_name_in_faults_and_one_that_is_alone_has_none_of_its_own(tmp_path: Path) -> None:
    parts: list[str] = []

    def noting(directory: Path, *, part: str) -> EdgeIndex:
        parts.append(part)
        return open_shard(directory, part=part)

    EdgeShards(tmp_path / "shard", DIMENSION, noting)
    layout = ShardLayout(tmp_path / "shard")
    layout.begin(2)
    layout.complete(2)
    EdgeShards(tmp_path / "shard", DIMENSION, noting)
    assert parts == [VECTOR_ENGINE, f"{VECTOR_ENGINE}-0", f"{VECTOR_ENGINE}-1"]


def test_generations_take_each_others_place(tmp_path: Path) -> None:
    layout = ShardLayout(tmp_path / "shard")
    (tmp_path / "shard").mkdir()
    (tmp_path / "shard.lock").touch()
    assert layout.used() == [tmp_path / "shard"]
    new = layout.begin(2)
    assert layout.used() == [tmp_path / "shard"]
    layout.tidy()
    assert names(tmp_path) == ["shard", "shard.lock"]
    assert layout.begin(2) == new == [tmp_path / "shards-1" / "0", tmp_path / "shards-1" / "1"]
    layout.complete(2)
    assert layout.used() == new
    layout.begin(3)
    layout.complete(3)
    assert len(layout.used()) == 3
    layout.tidy()
    assert names(tmp_path) == ["shards-2"]


def test_an_index_has_no_more_shards_than_its_layout_can_say(tmp_path: Path) -> None:
    layout = ShardLayout(tmp_path / "shard")
    for shards in (0, SHARDS_MAX + 1):
        with pytest.raises(ValueError, match="1 to 1024 shards"):
            layout.begin(shards)
    layout.begin(SHARDS_MAX)
    layout.complete(SHARDS_MAX)
    assert ShardLayout(tmp_path / "shard").used() == layout.used()
    assert len(layout.used()) == SHARDS_MAX


def test_a_layout_that_cannot_be_read_now_discards_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = ShardLayout(tmp_path / "shard")
    used = layout.begin(2)
    layout.complete(2)
    file = tmp_path / "shards-1" / "layout.json"
    file.unlink()
    file.mkdir()  # the system refuses to read it, even for root
    with pytest.raises(Fault) as refused:
        ShardLayout(tmp_path / "shard")
    assert refused.value.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE
    assert layout.used() == used
    assert layout.begin(3)[0].parent.name == "shards-2"
    layout.tidy()
    assert names(tmp_path) == ["shards-1"]

    def without_descriptors(_: Path) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "scandir", without_descriptors)
    monkeypatch.setattr(os, "listdir", without_descriptors)
    with pytest.raises(Fault):
        ShardLayout(tmp_path / "shard")


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b'{"format":2,"shards":2}', b'{"format":1,"shards":0}'])
def test_a_layout_that_cannot_be_read_is_not_used(tmp_path: Path, written: bytes) -> None:
    layout = ShardLayout(tmp_path / "shard")
    layout.begin(2)
    layout.complete(2)
    (tmp_path / "shards-1" / "layout.json").write_bytes(written)
    assert ShardLayout(tmp_path / "shard").used() == [tmp_path / "shard"]


def test_users_keep_their_shards() -> None:
    assert [shard_of(user_id, 5) for user_id in ("ann", "bob", "安", "")] == [2, 2, 4, 1]
    counts = Counter(shard_of(f"user-{number}", 5) for number in range(10_000))
    assert min(counts.values()) > 1800


@pytest.mark.parametrize(
    ("points", "shards", "wanted"),
    [
        (0, 1, 1),
        (300_000, 1, 1),
        (300_001, 1, 2),
        (1_000_000, 1, 5),
        (1_500_000, 5, 5),
        (1_500_001, 5, 8),
        (1_000_000_000, 5, SHARDS_MAX),
        (1_000_000_000, SHARDS_MAX, SHARDS_MAX),
    ],
)
def test_an_index_has_more_shards_when_it_has_grown(points: int, shards: int, wanted: int) -> None:
    assert shards_for(points, shards, 300_000) == wanted


async def test_an_index_that_has_grown_is_spread_by_itself(index: EdgeShards) -> None:
    growing = asyncio.create_task(Growth(index, points_max=100).run())
    await until(lambda: index.shards > 1)
    growing.cancel()
    await asyncio.wait([growing])
    assert index.shards == 4
    assert await held(index) == expected()


async def test_nothing_is_started_for_an_index_that_has_nothing(tmp_path: Path) -> None:
    index = opened(tmp_path)
    assert await index.size() == 0
    assert index.process_ids == []
    await index.close()
