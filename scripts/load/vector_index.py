"""Measure the memory, startup time and search cost of the embedded vector index with random vectors.

The vectors form clusters, like text embeddings. Typical users have equal shares of the vectors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from load.corpus import DIMENSION, HEAVY, format_user_id
from load.usage import measure_cpu_s, measure_memory_mb, measure_pss_mb, measure_run_time_ns

from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.protocol import VectorPoint

Figures = dict[str, Any]
Floats = npt.NDArray[np.float32]

_SEED = 20_250_602
_OF_TYPICAL = 750
"""Number of messages of a typical user."""
_CLUSTERS = 2000
_SPREAD = 0.6
"""Approximate length of the random offset of a vector from its cluster center, before normalization. The length of the
center is 1."""
_BATCH, _FLUSH_EVERY = 256, 20_480
_TIMEOUT_S = 600.0
_BEGIN_US = 1_735_689_600_000_000
_STEP_US = 1_000_000
_NEAREST = 20
_CALLERS = 16
_ACTIVE = 64
"""Number of typical users whose searches are repeated, so that their pages are in memory."""
_FLUSHES = 10
_REMOVED = 100


@dataclass(frozen=True, slots=True)
class IndexSize:
    """The total number of vectors, and the number of vectors of the heavy user."""

    vectors: int
    heavy: int

    @property
    def typical_users(self) -> int:
        """The number of typical users."""
        return max(1, (self.vectors - self.heavy) // _OF_TYPICAL)


def measure_vector_index(root: Path, size: IndexSize, seconds: float) -> Figures:
    """Measure the index in a directory; create and fill the index first if it does not exist."""
    return asyncio.run(_measure_vector_index(root, size, seconds))


async def _measure_vector_index(root: Path, size: IndexSize, seconds: float) -> Figures:
    directory = root / "edge"
    figures: Figures = {}
    if not directory.exists():
        figures["fill"] = await _fill_index(directory, size)
    async with _open_index(directory) as index:
        figures["start"] = await _measure_startup(index)
        typical = [format_user_id(n) for n in range(1, size.typical_users + 1)]
        figures["typical_first"] = await _measure_search(index, typical, EVERYTHING, 1, seconds, is_first=True)
        figures |= await _measure_searches(index, "typical", typical[:_ACTIVE], size, seconds)
        if size.heavy:
            figures |= await _measure_searches(index, "heavy", [HEAVY], size, seconds)
        figures["memory_after_searches_mb"] = _measure_memory(index)
        figures["flush"] = await _measure_flushes(index)
        if "fill" in figures:
            figures["erase_deleted"] = await _measure_erasure(index, seconds)
        figures["disk_mb"] = _measure_disk_size_mb(root)
    return figures


def open_index(directory: Path) -> EdgeIndex:
    """Open the vector index in a directory."""
    return EdgeIndex(directory, DIMENSION, _TIMEOUT_S)


@asynccontextmanager
async def _open_index(directory: Path) -> AsyncIterator[EdgeIndex]:
    index = open_index(directory)
    try:
        yield index
    finally:
        await index.close()


async def _fill_index(directory: Path, size: IndexSize) -> Figures:
    async with _open_index(directory) as index:
        began_at, stored = time.monotonic(), 0
        for points in _generate_batches(size):
            await index.upsert(points)
            stored += len(points)
            if stored % _FLUSH_EVERY < _BATCH:
                await index.flush()
        await index.flush()
        return {
            "vectors": stored,
            "wall_s": round(time.monotonic() - began_at, 1),
            "engine_cpu_us_a_vector": round(1e6 * measure_cpu_s(_list_process_ids(index)) / stored, 1),
            "memory_mb": _measure_memory(index),
        }


def _generate_batches(size: IndexSize) -> Iterator[list[VectorPoint]]:
    random = np.random.default_rng(_SEED)
    centers = _draw_cluster_centers()
    typical_owners = np.resize(np.arange(1, size.typical_users + 1), size.vectors - size.heavy)
    owners = np.concatenate([np.zeros(size.heavy, dtype=np.int64), typical_owners])
    random.shuffle(owners)
    for at in range(0, len(owners), _BATCH):
        batch = owners[at : at + _BATCH].tolist()
        vectors = _draw_clustered_vectors(random, centers, len(batch))
        yield [_build_point(at + n, format_user_id(owner), vectors[n]) for n, owner in enumerate(batch)]


def _build_point(number: int, user_id: str, vector: Floats) -> VectorPoint:
    role = Role.ASSISTANT if number % 2 else Role.USER
    conversation = f"c-{user_id}-{number // (1 << 16)}"
    ts_us = _BEGIN_US + number * _STEP_US
    return VectorPoint(user_id, f"m{number}", 0, number + 1, ts_us, role, conversation, vector.tobytes())


def _draw_cluster_centers() -> Floats:
    return _normalize(np.random.default_rng(_SEED + 1).standard_normal((_CLUSTERS, DIMENSION), dtype=np.float32))


def _draw_clustered_vectors(random: np.random.Generator, centers: Floats, count: int) -> Floats:
    noise = random.standard_normal((count, DIMENSION), dtype=np.float32) / np.sqrt(np.float32(DIMENSION))
    return _normalize(centers[random.integers(len(centers), size=count)] + _SPREAD * noise)


def _normalize(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype="<f4")


async def _measure_startup(index: EdgeIndex) -> Figures:
    began_at = time.perf_counter()
    points = await index.count()
    return {
        "wall_s": round(time.perf_counter() - began_at, 2),
        "cpu_s": round(measure_cpu_s(_list_process_ids(index)), 2),
        "vectors": points,
        "memory_mb": _measure_memory(index),
    }


async def _measure_searches(index: EdgeIndex, name: str, users: list[str], size: IndexSize, seconds: float) -> Figures:
    last_quarter = Filter(since_us=_BEGIN_US + size.vectors * _STEP_US * 3 // 4)
    return {
        name: await _measure_search(index, users, EVERYTHING, 1, seconds),
        f"{name}_{_CALLERS}_callers": await _measure_search(index, users, EVERYTHING, _CALLERS, seconds),
        f"{name}_last_quarter": await _measure_search(index, users, last_quarter, 1, seconds),
    }


async def _measure_search(
    index: EdgeIndex, users: list[str], message_filter: Filter, callers: int, seconds: float, *, is_first: bool = False
) -> Figures:
    """Search repeatedly for `seconds`, or once for each user without warm-up if `is_first` is true."""
    random = np.random.default_rng(_SEED + 2)
    queries = [query.tobytes() for query in _draw_clustered_vectors(random, _draw_cluster_centers(), 64)]
    waits: list[float] = []
    engine_ms: list[float] = []

    async def call(caller: int) -> None:
        at = caller
        while time.perf_counter() < end and not (is_first and at >= len(users)):
            user_id = users[at % len(users)]
            before, began_at = measure_run_time_ns(pids), time.perf_counter()
            hits = await index.search(user_id, queries[at % len(queries)], message_filter, _NEAREST)
            waits.append(1000 * (time.perf_counter() - began_at))
            engine_ms.append((measure_run_time_ns(pids) - before) / 1e6)
            if len(hits) < _NEAREST:
                raise ValueError(f"expected {_NEAREST} hits, got {len(hits)}")
            at += callers

    if not is_first:
        for user_id in users:
            await index.search(user_id, queries[0], message_filter, _NEAREST)
    pids, end = _list_process_ids(index), time.perf_counter() + seconds
    before = measure_run_time_ns(pids)
    await asyncio.gather(*map(call, range(callers)))
    mean_engine_ms = (measure_run_time_ns(pids) - before) / 1e6 / len(waits)
    p50, p99 = np.percentile(waits, [50, 99])
    return {
        "engine_cpu_ms": round(mean_engine_ms if callers > 1 else float(np.median(engine_ms)), 3),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "searches": len(waits),
    }


async def _measure_flushes(index: EdgeIndex) -> Figures:
    """Measure the flushes to disk after each stored batch."""
    size = IndexSize(_BATCH * _FLUSHES, 0)
    waits, before = [], measure_cpu_s(_list_process_ids(index))
    for points in _generate_batches(size):
        await index.upsert(points)
        began_at = time.perf_counter()
        await index.flush()
        waits.append(1000 * (time.perf_counter() - began_at))
    cpu_ms = 1000 * (measure_cpu_s(_list_process_ids(index)) - before) / len(waits)
    return {"max_ms": round(max(waits), 1), "cpu_ms_with_256_stored": round(cpu_ms, 1)}


async def _measure_erasure(index: EdgeIndex, seconds: float) -> Figures:
    """Measure the erasure of deleted points, and the latency of searches during the erasure."""
    user = format_user_id(1)
    for number in range(_REMOVED):
        await index.remove(user, f"m{number}")
    before, began_at = measure_cpu_s(_list_process_ids(index)), time.perf_counter()
    erasing = asyncio.create_task(index.erase_deleted())
    concurrent = await _measure_search(index, [user], EVERYTHING, 1, seconds)
    await erasing
    return {
        "vectors": await index.count(),
        "wall_s": round(time.perf_counter() - began_at, 1),
        "cpu_s": round(measure_cpu_s(_list_process_ids(index)) - before, 1),
        "search_beside_p50_ms": concurrent["p50_ms"],
        "search_beside_p99_ms": concurrent["p99_ms"],
    }


def _list_process_ids(index: EdgeIndex) -> list[int]:
    return [] if index.process_id is None else [index.process_id]


def _measure_memory(index: EdgeIndex) -> Figures:
    pids = _list_process_ids(index)
    return {
        "rss": round(measure_memory_mb(pids, "Rss"), 1),
        **{name: round(mb, 1) for name, mb in measure_pss_mb(pids).items()},
    }


def _measure_disk_size_mb(root: Path) -> float:
    return round(sum(item.stat().st_blocks * 512 for item in root.rglob("*") if item.is_file()) / 1e6, 1)
