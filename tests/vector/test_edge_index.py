"""The worker process of the embedded engine: no acknowledged write is lost when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import uvloop

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.processes.ipc_protocol import Call as WorkerCall
from nomemory.server.runtime.processes.worker_errors import WorkerUnavailableError
from nomemory.server.search.semantic.edge import engine
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.edge.messages import NearestQuery, ShardCall
from nomemory.server.search.semantic.edge.worker import EdgeWorker
from nomemory.server.search.semantic.points import METADATA
from nomemory.server.search.semantic.protocol import VectorPoint

DIMENSION = 8
T = TypeVar("T")
RANDOM = np.random.default_rng(7)


def vector() -> Vector:
    return RANDOM.standard_normal(DIMENSION).astype("<f4").tobytes()


def point(number: int, numbers: Vector | None = None) -> VectorPoint:
    return VectorPoint("ann", f"m{number}", 0, number, number, Role.USER, "", numbers or vector())


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[EdgeIndex]:
    index = EdgeIndex(tmp_path / "collection" / "edge", DIMENSION, timeout_s=20)
    yield index
    await index.close()


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Retry while the engine is unavailable."""
    while True:
        with contextlib.suppress(Fault):
            return await call()
        await asyncio.sleep(0.01)


def kill(index: EdgeIndex) -> int:
    assert index.process_id is not None
    os.kill(index.process_id, signal.SIGKILL)
    return index.process_id


def test_missing_payload_indexes_are_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = engine._PAYLOAD_INDEXES
    with monkeypatch.context() as before:
        before.setattr(engine, "_PAYLOAD_INDEXES", {k: v for k, v in indexes.items() if k != METADATA})
        opened = engine.open_engine(tmp_path / "1", DIMENSION)
        assert METADATA not in opened.info().payload_schema
        opened.close()
    for _ in range(2):
        opened = engine.open_engine(tmp_path / "1", DIMENSION)
        assert set(opened.info().payload_schema) == set(indexes)
        opened.close()


async def test_acknowledged_points_survive_a_killed_worker(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path / "edge", DIMENSION, timeout_s=20)
    acknowledged: list[int] = []

    async def write(first: int, underway: asyncio.Event) -> None:
        for number in range(first, first + 60):
            await index.upsert([point(number)])
            acknowledged.append(number)
            if number == first + 20:
                underway.set()

    for round_ in range(2):
        await answered(index.count)
        underway = asyncio.Event()
        writers = [asyncio.create_task(write(1000 * round_ + 100 * writer, underway)) for writer in range(3)]
        await underway.wait()
        kill(index)
        failures = await asyncio.gather(*writers, return_exceptions=True)
        assert {type(failure) for failure in failures} == {Fault}
    hits = await answered(lambda: index.search("ann", vector(), EVERYTHING, 10_000))
    assert {hit.sequence for hit in hits} >= set(acknowledged)
    await index.close()


async def test_searches_return_current_payloads(index: EdgeIndex) -> None:
    async def search_sequences() -> list[tuple[int, int]]:
        return [(hit.sequence, hit.ts_us) for hit in await index.search("ann", first.vector, EVERYTHING, 10)]

    first = point(1)
    await index.upsert([first, point(2, b"\0" * 28 + b"\0\0\x80\x3f")])
    assert sorted(await search_sequences()) == sorted(await search_sequences()) == [(1, 1), (2, 2)]
    await index.upsert([replace(first, sequence=3, ts_us=9)])
    assert sorted(await search_sequences()) == [(2, 2), (3, 9)]
    await index.remove("ann", "m1")
    assert await search_sequences() == [(2, 2)]
    await index.upsert([replace(first, sequence=4)])
    assert sorted(await search_sequences()) == [(2, 2), (4, 1)]


async def test_pending_calls_fail_and_the_next_call_succeeds(index: EdgeIndex) -> None:
    await index.upsert([point(1)])
    process_id = index.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGSTOP)
    calls = [asyncio.create_task(index.count()) for _ in range(20)]
    await asyncio.sleep(0)
    kill(index)
    for failure in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(failure, Fault)
        assert failure.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE
        assert failure.retry_after_s is not None
    assert await index.count() == 1
    assert index.process_id != process_id


async def test_an_unresponsive_worker_is_replaced(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path / "edge", DIMENSION, timeout_s=0.3)
    await index.upsert([point(1)])
    stuck = index.process_id
    assert stuck is not None
    os.kill(stuck, signal.SIGSTOP)
    with pytest.raises(Fault):
        await index.count()
    assert await answered(index.count) == 1
    assert index.process_id != stuck
    await index.close()


async def test_the_worker_outlives_the_signals_of_its_group(index: EdgeIndex) -> None:
    await index.upsert([point(1)])
    process_id = index.process_id
    assert process_id is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process_id, number)
    assert await index.count() == 1
    assert index.process_id == process_id


async def test_closing_releases_the_directory(tmp_path: Path) -> None:
    first = EdgeIndex(tmp_path / "edge", DIMENSION, timeout_s=20)
    await first.upsert([point(1)])
    process_id = first.process_id
    assert process_id is not None
    await first.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
    with pytest.raises(Fault, match="does not respond"):
        await first.count()
    second = EdgeIndex(tmp_path / "edge", DIMENSION, timeout_s=20)
    assert await second.count() == 1
    await second.close()


async def test_a_directory_in_use_is_rejected(index: EdgeIndex, tmp_path: Path) -> None:
    await index.upsert([point(1)])
    other = EdgeIndex(tmp_path / "collection" / "edge", DIMENSION, timeout_s=20)
    with pytest.raises(Fault) as refused:
        await other.count()
    assert isinstance(refused.value.__cause__, WorkerUnavailableError)
    assert "in use" in str(refused.value.__cause__)
    assert await index.count() == 1
    await other.close()


async def test_unused_files_are_deleted_at_startup(tmp_path: Path) -> None:
    (tmp_path / "edge" / "1").mkdir(parents=True)
    (tmp_path / "edge" / "1" / "unfinished").touch()
    index = EdgeIndex(tmp_path / "edge", DIMENSION, timeout_s=20)
    await index.upsert([point(1)])
    await index.close()
    assert sorted(names(tmp_path)) == ["edge", "edge.lock"]
    assert not (tmp_path / "edge" / "1" / "unfinished").exists()


def names(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


def test_the_worker_does_not_outlive_its_parent(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, pathlib, signal
from nomemory.server.search.semantic.edge.index import EdgeIndex
async def main():
    index = EdgeIndex(pathlib.Path({str(tmp_path / "edge")!r}), {DIMENSION}, 20)
    await index.count()
    print(index.process_id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    parent = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    worker = int(parent.stdout)
    while (Path("/proc") / str(worker)).exists() and "Z" not in state_of(worker):
        time.sleep(0.01)


def state_of(process_id: int) -> str:
    try:
        return (Path("/proc") / str(process_id) / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


async def test_concurrent_searches_get_their_own_results(index: EdgeIndex) -> None:
    stored = [point(number) for number in range(300)]
    await index.upsert(stored)
    searches = [index.search("ann", at.vector, EVERYTHING, 1) for at in stored]
    writes = [index.upsert([point(1000 + number, vector())]) for number in range(20)]
    answers, _ = await asyncio.gather(asyncio.gather(*searches), asyncio.gather(*writes))
    assert [hits[0].sequence for hits in answers] == list(range(300))
    assert await index.count() == 320


class ScriptedPipe:
    """Sends all calls to the worker at once, then closes the pipe."""

    def __init__(self, requests: list[object]) -> None:
        self._asked = [WorkerCall(number, request) for number, request in enumerate(requests, 1)]
        self.answers: dict[int, object] = {}

    def receive_calls(self, *, wait: bool) -> list[WorkerCall]:
        if wait and not self._asked:
            raise EOFError
        requests, self._asked = self._asked, []
        return requests

    def reply(self, call_id: int, value: object) -> None:
        self.answers[call_id] = value

    def reply_error(self, call_id: int, error: str) -> None:
        self.answers[call_id] = error


class RecordingShard:
    """Records its calls."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def upsert(self, points: list[VectorPoint]) -> None:
        self.done.append(f"upsert {points[0].message_id}")

    def remove(self, _user_id: str, message_id: str, _from_part: int) -> None:
        self.done.append(f"remove {message_id}")

    def search(self, searches: list[NearestQuery]) -> list[list[int]]:
        self.done.append(f"search {len(searches)}")
        return [[search.limit] for search in searches]

    def flush(self) -> None:
        self.done.append("flush")

    def count(self) -> int:
        raise RuntimeError("no content in here")


def test_queued_searches_are_batched_and_writes_stay_ordered() -> None:
    pipe = ScriptedPipe(
        [
            ShardCall("upsert", ([point(1)],), {}),
            NearestQuery(b"", (), 7),
            ShardCall("remove", ("ann", "m1", 0), {}),
            NearestQuery(b"", (), 8),
            ShardCall("upsert", ([point(2)],), {}),
            ShardCall("flush", (), {}),
            NearestQuery(b"", (), 9),
            ShardCall("count", (), {}),
        ]
    )
    shard = RecordingShard()
    with pytest.raises(EOFError):
        EdgeWorker(pipe, shard).handle_requests()  # type: ignore[arg-type] # the worker's logic, without pipe and engine
    assert shard.done == ["search 3", "upsert m1", "remove m1", "upsert m2", "flush"]
    assert pipe.answers == {1: None, 2: [7], 3: None, 4: [8], 5: None, 6: None, 7: [9], 8: "RuntimeError"}


def test_the_edge_index_restarts_its_process_on_uvloop(tmp_path: Path) -> None:
    async def main() -> int:
        index = EdgeIndex(tmp_path / "edge", DIMENSION, timeout_s=20)
        await asyncio.gather(*(index.upsert([point(number)]) for number in range(200)))
        kill(index)
        count = await answered(index.count)
        await index.close()
        return count

    assert uvloop.run(main()) == 200
