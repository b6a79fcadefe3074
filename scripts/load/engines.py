"""The engines' own calls: what a read costs without gRPC, over the data of a server that has stopped."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
from load.cases import Case
from load.corpus import DIMENSION
from load.usage import cpu_s
from load.vector_index import opened_index

from evaluation.temporary_server import process_tree
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
"""What the server asks its engines for when a page of 50 is wanted: one more, to know whether there is a next page."""
_NEAREST = 28
_THREADS = 2


def engine_calls(data: Path, cases: Sequence[Case], seconds: float) -> dict[str, dict[str, float]]:
    """Measure the engine behind each case that has one: list, lexical search and semantic search."""
    return asyncio.run(_engine_calls(data, cases, seconds))


async def _engine_calls(data: Path, cases: Sequence[Case], seconds: float) -> dict[str, dict[str, float]]:
    settings = Settings.from_environment(data=data, embedder="none", embedding_dimension=DIMENSION)
    directory = DataDirectory(data)
    async with AsyncExitStack() as stack:
        threads = ReadThreads(_THREADS)
        stack.push_async_callback(threads.close)
        log, words = SqliteLogReader(directory.log), TantivyLexicalIndex(directory.lexical, threads)
        stack.push_async_callback(log.close)
        stack.push_async_callback(words.close)
        figures = {
            case.name: await _measure(call, case.requests, seconds)
            for case in cases
            for call in _in_process(case, log, words, settings)
        }
    async with _edge(directory) as edge:
        nearest = _nearest(edge, settings)
        return figures | {
            case.name: await _measure(nearest, case.requests, seconds)
            for case in cases
            if case.method.endswith("/SemanticSearch")
        }


def _in_process(case: Case, log: LogReader, words: LexicalIndex, settings: Settings) -> Iterator[Call]:
    if case.method.endswith("/ListMessages"):
        yield _list(log, settings)
    if case.method.endswith("/LexicalSearch"):
        yield _lexical(words, settings)


def _list(log: LogReader, settings: Settings) -> Call:
    async def call(raw: bytes) -> object:
        listing = decode_list(pb.ListMessagesRequest.FromString(raw), settings).listing
        pinned = await log.user_sequence(listing.user_id)
        return await log.page(listing.user_id, listing.filter, before=None, pinned=pinned, limit=_LIMIT)

    return call


def _lexical(words: LexicalIndex, settings: Settings) -> Call:
    async def call(raw: bytes) -> object:
        asked = decode_lexical(pb.LexicalSearchRequest.FromString(raw), settings)
        user_id, message_filter = asked.listing.user_id, asked.listing.filter
        ranking = await words.freeze(user_id, asked.query, message_filter)
        return await words.search(LexicalSearch(user_id, asked.query, ranking, message_filter, None, _LIMIT))

    return call


def _nearest(edge: EdgeIndex, settings: Settings) -> Call:
    async def call(raw: bytes) -> object:
        asked, _ = decode_semantic(pb.SemanticSearchRequest.FromString(raw), settings, DIMENSION)
        return await edge.search(asked.user_id, asked.vector or b"", asked.filter, _NEAREST)

    return call


@asynccontextmanager
async def _edge(directory: DataDirectory) -> AsyncIterator[EdgeIndex]:
    (backlog,) = directory.vectors.glob("*/vectors.db")
    edge = opened_index(backlog.with_name("edge"))
    try:
        yield edge
    finally:
        await edge.close()


async def _measure(call: Call, requests: Sequence[bytes], seconds: float) -> dict[str, float]:
    await call(requests[0])
    pids = process_tree(os.getpid())
    waits: list[float] = []
    before, end = cpu_s(pids), time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        await call(requests[len(waits) % len(requests)])
        waits.append(1000 * (time.perf_counter() - now))
    p50, p99 = np.percentile(waits, [50, 99])
    spent = cpu_s(pids) - before
    return {
        "p50_ms": round(float(p50), 3),
        "p99_ms": round(float(p99), 3),
        "cpu_ms": round(1000 * spent / len(waits), 3),
    }
