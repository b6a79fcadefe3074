"""A cache of query vectors: people and agents repeat queries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrapper import EmbedderWrapper


class CachedEmbedder(EmbedderWrapper):
    """An `Embedder` that remembers the vectors of the latest queries, and asks once for queries that come together.

    Args:
        embedder: what embeds.
        kept_max: how many vectors are kept; 0 keeps none.
    """

    def __init__(self, embedder: Embedder, kept_max: int) -> None:
        super().__init__(embedder)
        self._kept: LRUCache[str, Vector] = LRUCache(kept_max)
        self._asked: dict[str, asyncio.Task[Vector]] = {}

    async def embed_query(self, text: str) -> Vector:
        """Embed a query, unless its vector is cached. A failure is not cached."""
        if text in self._kept:
            return self._kept[text]
        asked = self._asked.get(text)
        if asked is None:
            asked = self._asked[text] = asyncio.create_task(self._within.embed_query(text))
            asked.add_done_callback(lambda done: self._keep(text, done))
        return await asyncio.shield(asked)  # who gives up must not take the answer from the others

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        for asked in self._asked.values():
            asked.cancel()
        await self._within.close()

    def _keep(self, text: str, done: asyncio.Task[Vector]) -> None:
        del self._asked[text]
        if done.cancelled() or done.exception() is not None:
            return
        with suppress(ValueError):  # there is room for none
            self._kept[text] = done.result()
