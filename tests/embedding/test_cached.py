"""Tests for the cache of query and document vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nomemory.server.embedding.protocol import TextRejectedError, build_embedder_unavailable_fault
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrappers import CachedEmbedder
from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.document_vectors import DocumentVectors


class CountingEmbedder:
    """Embeds a text as its bytes, and records its calls."""

    kind, model, dimension = "local", "counting", 3

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.calls: list[list[str]] = []
        self.is_down = False
        self.refused: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def embed_query(self, text: str) -> Vector:
        self.requests.append(text)
        await self.gate.wait()
        self._check()
        return text.encode()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.calls.append(list(texts))
        self._check()
        for position, text in enumerate(texts):
            if text in self.refused:
                raise TextRejectedError(position, "refused")
        return [text.encode() for text in texts]

    async def close(self) -> None:
        self.requests.append("closed")

    def _check(self) -> None:
        if self.is_down:
            raise build_embedder_unavailable_fault("away", "connection")


def never() -> bool:
    return False


async def test_query_is_cached_until_it_is_least_recently_used() -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        assert await cached.embed_query(text) == text.encode()
    assert embedder.requests == ["a", "b", "c", "b"]


async def test_failure_is_not_cached() -> None:
    embedder = CountingEmbedder()
    embedder.is_down = True
    cached = CachedEmbedder(embedder, 10)
    with pytest.raises(Fault):
        await cached.embed_query("a")
    embedder.is_down = False
    assert await cached.embed_query("a") == b"a"
    assert embedder.requests == ["a", "a"]


async def test_a_cache_of_size_zero_stores_nothing() -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, 0)
    assert await cached.embed_query("a") == await cached.embed_query("a") == b"a"
    assert embedder.requests == ["a", "a"]


async def test_other_calls_are_forwarded_to_the_embedder() -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, 10)
    assert (cached.kind, cached.model, cached.dimension) == ("local", "counting", 3)
    assert await cached.embed_documents(["a", "a"]) == [b"a", b"a"]
    await cached.close()
    assert embedder.requests == ["closed"]


async def test_each_distinct_document_text_is_embedded_once_in_calls_of_the_given_size() -> None:
    embedder = CountingEmbedder()
    vectors = DocumentVectors(embedder, 2, 10)
    assert await vectors.embed(["a", "b", "a", "c", "b"], never)
    assert await vectors.embed(["c", "d"], never)
    assert embedder.calls == [["a", "b"], ["c"], ["d"]]
    assert vectors.get_vectors(["d", "a", "a"]) == [b"d", b"a", b"a"]
    assert vectors.embedded == 4


async def test_rejected_text_is_cached_and_the_others_are_embedded() -> None:
    embedder = CountingEmbedder()
    embedder.refused = {"b", "c"}
    vectors = DocumentVectors(embedder, 10, 10)
    assert await vectors.embed(["a", "b", "c", "d"], never)
    assert vectors.get_vectors(["a", "d"]) == [b"a", b"d"]
    assert vectors.get_vectors(["a", "b"]) is None
    assert vectors.embedded == 2
    assert await vectors.embed(["b"], never)
    assert embedder.calls[-1] == ["a", "d"]


async def test_embeddings_before_an_interruption_or_fault_are_cached() -> None:
    embedder = CountingEmbedder()
    vectors = DocumentVectors(embedder, 1, 10)
    assert not await vectors.embed(["a", "b"], lambda: True)
    embedder.is_down = True
    with pytest.raises(Fault):
        await vectors.embed(["a", "b"], never)
    embedder.is_down = False
    assert await vectors.embed(["a", "b"], never)
    assert embedder.calls == [["a"], ["b"], ["b"]]


async def test_only_the_latest_document_vectors_are_cached() -> None:
    embedder = CountingEmbedder()
    vectors = DocumentVectors(embedder, 10_000, 10)
    await vectors.embed([str(number) for number in range(3000)], never)
    assert len(vectors._cache) == 1024


async def test_query_without_waiting_callers_is_cancelled() -> None:
    embedder = CountingEmbedder()
    embedder.gate.clear()
    withdrawn = asyncio.Event()
    embed = embedder.embed_query

    async def noted(text: str) -> Vector:
        try:
            return await embed(text)
        except asyncio.CancelledError:
            withdrawn.set()
            raise

    embedder.embed_query = noted  # type: ignore[method-assign]
    cached = CachedEmbedder(embedder, 10)
    impatient = asyncio.create_task(cached.embed_query("a"))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    assert withdrawn.is_set()
    embedder.gate.set()
    assert await cached.embed_query("a") == b"a"
