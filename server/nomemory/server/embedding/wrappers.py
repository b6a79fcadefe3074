"""Embedders around another: one counts its calls, one notices failures, one caches queries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder, TextRefusedError, may_be_caused_by_text
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters


class EmbedderWrapper:
    """An `Embedder` that passes everything on to the wrapped one."""

    def __init__(self, within: Embedder) -> None:
        self._within = within
        self.kind, self.model, self.dimension = within.kind, within.model, within.dimension

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        return await self._within.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        await self._within.close()


class MeteredEmbedder(EmbedderWrapper):
    """An `Embedder` around another.

    Args:
        embedder: the model.
        meters: count.
    """

    def __init__(self, embedder: Embedder, meters: Meters) -> None:
        super().__init__(embedder)
        self._meters = meters

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        with self._counted("query", 1):
            return await self._within.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        with self._counted("document", len(texts)):
            return await self._within.embed_documents(texts)

    @contextmanager
    def _counted(self, purpose: str, texts: int) -> Iterator[None]:
        """Count a call of the model by how it ends, as `Embedder` says. One that is cancelled is not counted."""
        began = time.perf_counter()
        try:
            yield
        except (Fault, TextRefusedError):
            self._note(purpose, began, embedded=0, failed=1)
            raise
        self._note(purpose, began, embedded=texts, failed=0)

    def _note(self, purpose: str, began: float, *, embedded: int, failed: int) -> None:
        self._meters.observe(catalog.EMBEDDER_CALLS, time.perf_counter() - began, purpose)
        self._meters.count(catalog.EMBEDDER_TEXTS, purpose, by=embedded)
        self._meters.count(catalog.EMBEDDER_ERRORS, purpose, by=failed)


_FAILURES_MIN = 3
"""So many in a row are a failing model: fewer may be chance, however far apart."""


class WatchedEmbedder(EmbedderWrapper):
    """An `Embedder` around another.

    Attributes:
        failing_s: seconds between the first and the latest of the queries that failed in a row; 0 if they were few.
            What embeds documents does not fail, and what asks for patience does not either.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._failed_at: float | None = None
        self._failures = 0
        self.failing_s = 0.0

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        try:
            vector = await self._within.embed_query(text)
        except Fault as fault:
            if fault.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE and may_be_caused_by_text(fault):
                self._note_failure()
            raise
        self._note_success()
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        vectors = await self._within.embed_documents(texts)
        self._note_success()
        return vectors

    def _note_failure(self) -> None:
        now = time.monotonic()
        self._failed_at = self._failed_at or now
        self._failures += 1
        if self._failures >= _FAILURES_MIN:
            self.failing_s = now - self._failed_at

    def _note_success(self) -> None:
        self._failed_at, self._failures, self.failing_s = None, 0, 0.0


class CachedEmbedder(EmbedderWrapper):
    """An `Embedder` that remembers the vectors of the latest queries.

    Args:
        embedder: what embeds.
        kept_max: how many vectors are kept; 0 keeps none.
    """

    def __init__(self, embedder: Embedder, kept_max: int) -> None:
        super().__init__(embedder)
        self._kept: LRUCache[str, Vector] = LRUCache(kept_max)

    async def embed_query(self, text: str) -> Vector:
        """Embed a query, unless its vector is remembered. A failure is not remembered."""
        if text in self._kept:
            return self._kept[text]
        vector = await self._within.embed_query(text)
        with suppress(ValueError):  # there is room for none
            self._kept[text] = vector
        return vector
