"""Tests for ranked reads with real engines: fetched hits, and indexes that lag behind a cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from nomemory.server.embedding.factory import DisabledEmbedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.token_cipher import TokenCipher
from nomemory.server.search.cursor import CursorCodec, Listing
from nomemory.server.search.grammar.grammar import QueryLimits, parse_query
from nomemory.server.search.lexical.tantivy.reader import TantivyLexicalIndex
from nomemory.server.search.lexical.tantivy.schema import discard_index
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.server.search.lexical_listing import LexicalListing, RankedPage
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.protocol import VectorHit, VectorPoint
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.search.semantic_search import SemanticQuery, SemanticSearch
from nomemory.server.search.speakers import SpeakerNameSampler
from nomemory.server.store.results import OnConflict
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.writer import SqliteLogWriter

HEAP_BYTES = 15_000_000
BUDGET = 3_000_000
COUNT = 200


def vector(*numbers: float) -> Vector:
    return np.array(numbers, "<f4").tobytes()


EAST, NORTH = vector(1, 0), vector(0, 1)


class Watched(EdgeIndex):
    """An index that records the requested number of hits."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, dimension=2, timeout_s=30)
        self.limits: list[int] = []

    async def search(self, user_id: str, vector: Vector, message_filter: Filter, limit: int) -> list[VectorHit]:
        self.limits.append(limit)
        return await super().search(user_id, vector, message_filter, limit)


class UpToDate:
    """Reports no lag."""

    async def is_lagging(self, _user_id: str, _sequence: int) -> bool:
        return False

    def poll(self) -> None:
        return

    def record_query(self, _user_id: str) -> None:
        """Do nothing."""


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLogReader]:
    with closing(
        SqliteLogWriter(tmp_path / "log.db", queue_max=10, queue_max_bytes=1_000_000, announce=lambda: None)
    ) as writer:
        messages = [Message("u", f"m{n:03}", n, Role.USER, "hello") for n in range(COUNT)]
        await writer.write(messages, on_conflict=OnConflict.REFUSE)
        reader = SqliteLogReader(tmp_path / "log.db")
        yield reader
        await reader.close()


@pytest.mark.parametrize(("min_score", "count"), [(0.5, 3), (None, 20)])
async def test_search_stops_below_the_minimum_score(
    tmp_path: Path, log: SqliteLogReader, min_score: float | None, count: int
) -> None:
    index = Watched(tmp_path / "vectors")
    try:
        await index.upsert(
            [
                VectorPoint("u", f"m{n:03}", 0, n + 1, n, Role.USER, "", EAST if n < 3 else vector(n / 1000, 1))
                for n in range(COUNT)
            ]
        )
        space = VectorSpace("space", DisabledEmbedder(2), index, UpToDate())
        nearest = SemanticSearch(log, SpeakerNameSampler(log), BUDGET)
        hits = await nearest.search(space, SemanticQuery("u", None, EAST, EVERYTHING, 20, min_score))
    finally:
        await index.close()
    assert len(hits.items) == count
    assert index.limits == [28], "one read of the page with a margin"


def fill(directory: Path, upto: int) -> None:
    with TantivyLexicalWriter(directory, HEAP_BYTES) as writer:
        for sequence in range(writer.applied_sequence + 1, upto + 1):
            writer.add_version(sequence, Message("u", f"m{sequence - 1:03}", sequence - 1, Role.USER, "hello"))
        writer.commit(upto)


async def test_listing_is_complete_during_an_index_rebuild(tmp_path: Path, log: SqliteLogReader) -> None:
    directory = tmp_path / "words"
    fill(directory, COUNT)
    async with AsyncExitStack() as stack:
        threads = ReadThreads(1)
        stack.push_async_callback(threads.close)
        index = TantivyLexicalIndex(directory, threads)
        stack.push_async_callback(index.close)
        listing = LexicalListing(index, log, CursorCodec(TokenCipher(b"k" * 32, "log"), 3600), BUDGET)
        lexical_listing, query = (
            Listing("LexicalSearch", "u", "hello", EVERYTHING),
            parse_query("hello", QueryLimits(2000, 128, 16)),
        )

        async def page(cursor: str) -> RankedPage:
            return await listing.read_page(lexical_listing, query, 150, cursor)

        first = await page("")
        discard_index(directory)
        fill(directory, 20)
        with pytest.raises(Fault) as raised:
            await page(first.next_cursor)
        assert raised.value.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE
        assert raised.value.retry_after_s
        fill(directory, COUNT)
        second = await page(first.next_cursor)
        assert second.next_cursor == ""
        ids = [item.message.message_id for item in first.items + second.items]
        assert ids == [f"m{n:03}" for n in reversed(range(COUNT))]
