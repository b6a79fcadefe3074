"""Tests that files of the vector index removed or damaged between two starts are repaired."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest

from captured_logs import logged
from chat_messages import new_message
from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.faults import Fault
from nomemory.server.indexing.vector import maintenance
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpace
from nomemory.server.indexing.vector.reconcile import ReconciliationReport
from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.metrics.process_registry import ProcessRegistry
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.commit_signal import CommitSignal
from nomemory.server.runtime.wiring.sqlite_store import SqliteStore
from nomemory.server.runtime.wiring.vector_check import check_vector_index
from nomemory.server.runtime.wiring.vector_spaces import VectorSpaces
from nomemory.server.search.semantic import factory
from nomemory.server.search.semantic.factory import create_vector_index
from nomemory.server.search.semantic.protocol import VectorIndex, VectorPoint
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

USERS, EACH, WAIT_S = 3, 40, 60
STORE = "edge/1/segments/*/"


def vector_of(number: int) -> list[float]:
    return [1.0, number / 10, -number / 7, 1 / (number + 1)]


def write_all(server: Server) -> None:
    for user in range(USERS):
        messages = [new_message(f"u{user}", f"m{n}", "x", embedding=vector_of(n)) for n in range(EACH)]
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))


def status(server: Server) -> i.GetIndexStatusResponse:
    return server.ingest.GetIndexStatus(i.GetIndexStatusRequest())


def nearest_ids(server: Server, user: str) -> list[str]:
    """Return a user's message ids: the one with the query vector first, then the others sorted."""
    request = q.SemanticSearchRequest(user_id=user, top_k=200, query_embedding=q.Embedding(values=vector_of(3)))
    first, *others = server.query.SemanticSearch(request).items
    assert first.score > 0.999
    return [first.message.message_id, *sorted(item.message.message_id for item in others)]


def until(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def is_whole(server: Server) -> bool:
    """Return whether the index reports no fault and finds all messages."""
    now = status(server)
    if now.vector.checkpoint != now.log.sequence or now.vector.error or now.faults:
        return False
    expected_ids = ["m3", *sorted(f"m{n}" for n in range(EACH) if n != 3)]
    with contextlib.suppress(grpc.RpcError, ValueError, AssertionError):  # before the repair
        return all(nearest_ids(server, f"u{user}") == expected_ids for user in range(USERS))
    return False


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged data directory of a stopped server."""
    data = tmp_path_factory.mktemp("written") / "data"
    with started(settings_of(data)) as server:
        write_all(server)
        until(lambda: is_whole(server))
    return data


def settings_of(data: Path, **more: int) -> Settings:
    return settings_without_embedder(data, process_memory_bytes=1 << 30, **more)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flip(at: int, bit: int) -> Callable[[Path], None]:
    def flip_bit(path: Path) -> None:
        stored = bytearray(path.read_bytes())
        stored[at] ^= bit
        path.write_bytes(stored)

    return flip_bit


DAMAGES = {
    "the whole shard": ("edge", remove),
    "all segments": ("edge/1/segments", remove),
    "the write-ahead log": ("edge/1/wal", remove),
    "the version in use, zeroed": ("edge/current", zero),
    "a segment's state": (f"{STORE}segment.json", remove),
    "the ids": (f"{STORE}mutable_id_tracker.mappings", remove),
    "the payloads": (f"{STORE}payload_storage", remove),
    "the vectors": (f"{STORE}vector_storage/vectors/chunk_0.mmap", remove),
    "the vectors, zeroed": (f"{STORE}vector_storage/vectors/chunk_0.mmap", zero),
    "the number of vectors, a bit less": (f"{STORE}vector_storage/vectors/status.dat", flip(0, 64)),
}
TOO_MANY_FLAGS = (f"{STORE}vector_storage/deleted/status.dat", flip(4, 8))
"""The number of flags, changed to 34 thousand million. The engine ends."""


def damaged_copy(written: Path, data: Path, damage: tuple[str, Callable[[Path], None]]) -> Path:
    shutil.copytree(written, data)
    pattern, harm = damage
    (damaged,) = (data / "vectors").glob(f"none-4/{pattern}")
    harm(damaged)
    return data


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_vector_index_is_repaired(written: Path, tmp_path: Path, damage: str) -> None:
    settings, faults = settings_of(damaged_copy(written, tmp_path / "data", DAMAGES[damage])), ActiveFaults()
    async with running_index(settings, faults) as space, asyncio.timeout(WAIT_S):
        while not await is_complete(space, faults):  # noqa: ASYNC110 - what is waited for is a state on disk
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running_index(settings: Settings, faults: ActiveFaults) -> AsyncIterator[IndexedSpace]:
    """Run the vector index and its indexer as a server does, without the rest of it."""
    directory = DataDirectory.from_settings(settings)
    store = SqliteStore(settings, directory)
    position = store.read_position()
    assert position is not None
    spaces = VectorSpaces(directory, store, CommitSignal(), ProcessRegistry(), position.identity.log_id)
    space = spaces.build(settings, choose_embedder(settings), faults)
    try:
        yield space
    finally:
        await space.close()


async def is_complete(space: IndexedSpace, faults: ActiveFaults) -> bool:
    """Return whether the index has no fault and finds all messages, as `is_whole` does with a server."""
    status = await space.indexer.status()
    if status.checkpoint.latest != USERS * EACH or space.job_fault() or faults.list_active_faults():
        return False
    query = np.asarray(vector_of(3), dtype="<f4")
    for user in range(USERS):
        try:
            hits = await space.index.search(f"u{user}", (query / np.linalg.norm(query)).tobytes(), EVERYTHING, 200)
        except Fault:  # before the repair
            return False
        first_sequence = user * EACH + 1
        if sorted(hit.sequence for hit in hits) != list(range(first_sequence, first_sequence + EACH)):
            return False
        if hits[0].sequence != first_sequence + 3 or hits[0].score < 0.999:
            return False
    return True


def test_server_repairs_an_index_whose_damage_ends_the_engine(start: Start, written: Path, tmp_path: Path) -> None:
    data = damaged_copy(written, tmp_path / "data", TOO_MANY_FLAGS)
    with start(settings_of(data)) as server:
        until(lambda: is_whole(server))


def test_an_index_of_an_earlier_layout_is_rebuilt(start: Start, written: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(written, data)
    collection = data / "vectors/none-4"
    (collection / "edge/1").rename(collection / "shard")
    remove(collection / "edge")
    with logged(factory) as logs, start(settings_of(data)) as server:
        until(lambda: is_whole(server))
    assert [line["event"] for line in logs] == ["the vector index has an outdated layout and is being rebuilt"]
    assert not (collection / "shard").exists()


async def plant_orphans(settings: Settings) -> None:
    """Add points of messages that are not in the log, of a known and an unknown user."""
    async with index_of(settings) as index:
        for user, sequence in (("u0", 5_000), ("u0", 6_000), ("nobody", 7_000)):
            point = VectorPoint(
                user, f"gone-{sequence}", 0, sequence, 1, Role.USER, "", np.asarray(vector_of(3), dtype="<f4").tobytes()
            )
            await index.upsert([point])
        await index.flush()


@asynccontextmanager
async def index_of(settings: Settings) -> AsyncIterator[VectorIndex]:
    embedder = choose_embedder(settings)
    index = create_vector_index(settings, settings.server.data / "vectors", embedder)
    try:
        yield index
    finally:
        await index.close()


async def versions_in(settings: Settings, *users: str) -> list[int]:
    async with index_of(settings) as index:
        stored = await index.read_points(users, with_vectors=False)
    return sorted(sequence for points in stored.counts_by_user for sequence in points)


@pytest.fixture
def with_orphans(written: Path, tmp_path: Path) -> Settings:
    shutil.copytree(written, tmp_path / "data")
    settings = settings_of(tmp_path / "data")
    asyncio.run(plant_orphans(settings))
    assert {5_000, 6_000, 7_000} < set(asyncio.run(versions_in(settings, "u0", "nobody")))
    return settings


def test_vectors_of_deleted_messages_are_reported_and_removed(start: Start, with_orphans: Settings) -> None:
    findings = asyncio.run(check_vector_index(with_orphans))
    assert findings is not None
    assert (findings.orphans, findings.mismatched, findings.is_consistent) == (3, 0, False)
    with logged(maintenance) as logs, start(with_orphans) as server:
        until(lambda: [line.get("orphans") for line in logs][:2] == [3, 0])
        until(lambda: is_whole(server))
    assert asyncio.run(versions_in(with_orphans, "u0", "nobody")) == list(range(1, EACH + 1))


def test_offline_check_reports_the_number_of_missing_vectors(written: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(written, data)
    findings = asyncio.run(check_vector_index(settings_of(data)))
    assert findings == ReconciliationReport(messages=USERS * EACH, points=USERS * EACH)
    remove(next((data / "vectors").glob("none-4/edge/1/segments")))
    findings = asyncio.run(check_vector_index(settings_of(data)))
    assert findings is not None
    assert not findings.is_consistent
    assert findings.messages == USERS * EACH
    assert findings.mismatched == USERS * EACH - findings.points
    assert asyncio.run(check_vector_index(settings_of(tmp_path / "none"))) is None
