"""An embedder whose calls are counted."""

from __future__ import annotations

from collections.abc import Sequence

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrapper import EmbedderWrapper
from nomemory.server.metrics.meters import EmbedderMeter


class MeteredEmbedder(EmbedderWrapper):
    """An `Embedder` around another.

    Args:
        embedder: the model.
        meter: counts.
    """

    def __init__(self, embedder: Embedder, meter: EmbedderMeter) -> None:
        super().__init__(embedder)
        self._meter = meter

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        with self._meter.calling("query", 1):
            return await self._within.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        with self._meter.calling("document", len(texts)):
            return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        await self._within.close()
