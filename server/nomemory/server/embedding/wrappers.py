"""Wrappers that add metrics, failure detection and query caching to an embedder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder, TextRejectedError, may_be_caused_by_text
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters


class EmbedderWrapper:
    """An `Embedder` that delegates to another embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._wrapped = embedder
        self.kind, self.model, self.dimension = embedder.kind, embedder.model, embedder.dimension

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        return await self._wrapped.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        return await self._wrapped.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        await self._wrapped.close()


class MeteredEmbedder(EmbedderWrapper):
    """An embedder wrapper that records call metrics."""

    def __init__(self, embedder: Embedder, meters: Meters) -> None:
        super().__init__(embedder)
        self._meters = meters

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        with self._record_call("query", 1):
            return await self._wrapped.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        with self._record_call("document", len(texts)):
            return await self._wrapped.embed_documents(texts)

    @contextmanager
    def _record_call(self, purpose: str, texts: int) -> Iterator[None]:
        """Record the duration and outcome of a call, unless the call is cancelled."""
        started_at = time.perf_counter()
        try:
            yield
        except (Fault, TextRejectedError):
            self._record_metrics(purpose, started_at, embedded=0, failed=1)
            raise
        self._record_metrics(purpose, started_at, embedded=texts, failed=0)

    def _record_metrics(self, purpose: str, started_at: float, *, embedded: int, failed: int) -> None:
        self._meters.observe(catalog.EMBEDDER_CALLS, time.perf_counter() - started_at, purpose)
        self._meters.count(catalog.EMBEDDER_TEXTS, purpose, by=embedded)
        self._meters.count(catalog.EMBEDDER_ERRORS, purpose, by=failed)


_FAILURES_MIN = 3
"""Number of consecutive failures from which the model counts as failing."""


class WatchedEmbedder(EmbedderWrapper):
    """An embedder wrapper that measures for how long queries have been failing.

    Attributes:
        failing_s: the time between the first and the latest of at least three consecutive failed queries, in seconds; 0
            after fewer failed queries. A rate limit does not count as a failure, and a successful call resets the value
            to 0.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._failed_at: float | None = None
        self._failures = 0
        self.failing_s = 0.0

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        try:
            vector = await self._wrapped.embed_query(text)
        except Fault as fault:
            if fault.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE and may_be_caused_by_text(fault):
                self._on_failure()
            raise
        self._on_success()
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        vectors = await self._wrapped.embed_documents(texts)
        self._on_success()
        return vectors

    def _on_failure(self) -> None:
        now = time.monotonic()
        self._failed_at = self._failed_at or now
        self._failures += 1
        if self._failures >= _FAILURES_MIN:
            self.failing_s = now - self._failed_at

    def _on_success(self) -> None:
        self._failed_at, self._failures, self.failing_s = None, 0, 0.0


class CachedEmbedder(EmbedderWrapper):
    """An embedder wrapper with an LRU cache of query vectors.

    Args:
        max_entries: the maximum number of cached vectors; 0 disables the cache.
    """

    def __init__(self, embedder: Embedder, max_entries: int) -> None:
        super().__init__(embedder)
        self._cache: LRUCache[str, Vector] = LRUCache(max_entries)

    async def embed_query(self, text: str) -> Vector:
        """Return the cached vector of a query, or embed the query and cache its vector."""
        if text in self._cache:
            return self._cache[text]
        vector = await self._wrapped.embed_query(text)
        with suppress(ValueError):  # the cache is disabled
            self._cache[text] = vector
        return vector
