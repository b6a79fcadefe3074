"""A cache of query vectors: people and agents repeat queries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from cachetools import LRUCache

from nomemory.server.admission.ticket import waiting_elsewhere
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrapper import EmbedderWrapper
from nomemory.server.metrics.meters import EmbedderMeter


@dataclass(slots=True)
class _Asked:
    """A query that is being embedded, and how many wait for it."""

    task: asyncio.Task[Vector]
    waiting: int = 0


class CachedEmbedder(EmbedderWrapper):
    """An `Embedder` that remembers the vectors of the latest queries, and asks once for queries that come together.

    Args:
        embedder: what embeds.
        kept_max: how many vectors are kept; 0 keeps none.
        meter: counts what was kept.
    """

    def __init__(self, embedder: Embedder, kept_max: int, meter: EmbedderMeter | None = None) -> None:
        super().__init__(embedder)
        self._meter = meter or EmbedderMeter()
        self._kept: LRUCache[str, Vector] = LRUCache(kept_max)
        self._asked: dict[str, _Asked] = {}

    async def embed_query(self, text: str) -> Vector:
        """Embed a query, unless its vector is cached. A failure is not cached. What nobody waits for is withdrawn."""
        self._meter.looked_up("memory", hit=text in self._kept)
        if text in self._kept:
            return self._kept[text]
        asked = self._asked.get(text) or self._ask(text)
        asked.waiting += 1
        try:
            async with waiting_elsewhere():
                return await asyncio.shield(asked.task)  # who gives up must not take the answer from the others
        finally:
            asked.waiting -= 1
            if not asked.waiting:
                self._withdraw(text, asked)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        for asked in self._asked.values():
            asked.task.cancel()
        await self._within.close()

    def _ask(self, text: str) -> _Asked:
        asked = self._asked[text] = _Asked(asyncio.create_task(self._within.embed_query(text)))
        asked.task.add_done_callback(lambda done: self._keep(text, done))
        return asked

    def _withdraw(self, text: str, asked: _Asked) -> None:
        """Forget a query at once, so that nobody joins it while it is being cancelled. It may have its answer."""
        self._forget(text, asked.task)
        asked.task.cancel()

    def _forget(self, text: str, task: asyncio.Task[Vector]) -> None:
        if text in self._asked and self._asked[text].task is task:
            del self._asked[text]

    def _keep(self, text: str, done: asyncio.Task[Vector]) -> None:
        self._forget(text, done)
        if done.cancelled() or done.exception() is not None:
            return
        with suppress(ValueError):  # there is room for none
            self._kept[text] = done.result()
