"""Measure reads in the storage and search engines without gRPC, on the data of a stopped server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
from load.cases import BenchmarkCase
from load.corpus import DIMENSION
from load.usage import measure_cpu_s
from load.vector_index import open_index

from evaluation.temporary_server import list_process_tree
from nomemory.server.api.validation.query_requests import decode_lexical, decode_list, decode_semantic
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.protocol import LexicalIndex, LexicalSearch
from nomemory.server.search.lexical.tantivy.reader import TantivyLexicalIndex
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.v1 import query_service_pb2 as pb

Call = Callable[[bytes], Awaitable[object]]

_LIMIT = 51
"""Limit that the server passes to its engines for a page of 50. The additional message indicates a next page."""
_NEAREST = 28
_THREADS = 2


def measure_engine_calls(data: Path, cases: Sequence[BenchmarkCase], seconds: float) -> dict[str, dict[str, float]]:
    """Run the list, lexical and semantic cases directly in the engines; return the figures by case name."""
    return asyncio.run(_measure_engine_calls(data, cases, seconds))


async def _measure_engine_calls(
    data: Path, cases: Sequence[BenchmarkCase], seconds: float
) -> dict[str, dict[str, float]]:
    settings = Settings.from_environment(data=data, embedder="none", embedding_dimension=DIMENSION)
    directory = DataDirectory(data)
    async with AsyncExitStack() as stack:
        threads = ReadThreads(_THREADS)
        stack.push_async_callback(threads.close)
        log, lexical_index = SqliteLogReader(directory.log_file), TantivyLexicalIndex(directory.lexical_index, threads)
        stack.push_async_callback(log.close)
        stack.push_async_callback(lexical_index.close)
        figures = {
            case.name: await _measure_call(call, case.requests, seconds)
            for case in cases
            for call in _build_search_calls(case, log, lexical_index, settings)
        }
    async with _open_edge_index(directory) as edge:
        nearest = _build_vector_search_call(edge, settings)
        return figures | {
            case.name: await _measure_call(nearest, case.requests, seconds)
            for case in cases
            if case.method.endswith("/SemanticSearch")
        }


def _build_search_calls(
    case: BenchmarkCase, log: LogReader, lexical_index: LexicalIndex, settings: Settings
) -> Iterator[Call]:
    if case.method.endswith("/ListMessages"):
        yield _build_list_call(log, settings)
    if case.method.endswith("/LexicalSearch"):
        yield _build_lexical_call(lexical_index, settings)


def _build_list_call(log: LogReader, settings: Settings) -> Call:
    async def call(raw: bytes) -> object:
        listing = decode_list(pb.ListMessagesRequest.FromString(raw), settings).listing
        pinned = await log.read_user_sequence(listing.user_id)
        return await log.read_page(listing.user_id, listing.filter, before=None, pinned=pinned, limit=_LIMIT)

    return call


def _build_lexical_call(lexical_index: LexicalIndex, settings: Settings) -> Call:
    async def call(raw: bytes) -> object:
        query = decode_lexical(pb.LexicalSearchRequest.FromString(raw), settings)
        user_id, message_filter = query.listing.user_id, query.listing.filter
        ranking = await lexical_index.freeze(user_id, query.query, message_filter)
        return await lexical_index.search(LexicalSearch(user_id, query.query, ranking, message_filter, None, _LIMIT))

    return call


def _build_vector_search_call(edge: EdgeIndex, settings: Settings) -> Call:
    async def call(raw: bytes) -> object:
        query, _ = decode_semantic(pb.SemanticSearchRequest.FromString(raw), settings, DIMENSION)
        return await edge.search(query.user_id, query.vector or b"", query.filter, _NEAREST)

    return call


@asynccontextmanager
async def _open_edge_index(directory: DataDirectory) -> AsyncIterator[EdgeIndex]:
    (backlog,) = directory.vector_collections.glob("*/vectors.db")
    edge = open_index(backlog.with_name("edge"))
    try:
        yield edge
    finally:
        await edge.close()


async def _measure_call(call: Call, requests: Sequence[bytes], seconds: float) -> dict[str, float]:
    await call(requests[0])
    pids = list_process_tree(os.getpid())
    waits: list[float] = []
    before, end = measure_cpu_s(pids), time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        await call(requests[len(waits) % len(requests)])
        waits.append(1000 * (time.perf_counter() - now))
    p50, p99 = np.percentile(waits, [50, 99])
    used_s = measure_cpu_s(pids) - before
    return {
        "p50_ms": round(float(p50), 3),
        "p99_ms": round(float(p99), 3),
        "cpu_ms": round(1000 * used_s / len(waits), 3),
    }
