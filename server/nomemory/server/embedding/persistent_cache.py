"""A persistent cache of vectors: an index that is built anew does not wait for the model."""

from __future__ import annotations

from collections.abc import Sequence

from nomemory.server.embedding.protocol import Embedder, TextRefusedError
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.vector_store import KeptVectors, Use
from nomemory.server.embedding.wrapper import EmbedderWrapper
from nomemory.server.metrics.meters import EmbedderMeter


class KeptEmbedder(EmbedderWrapper):
    """An `Embedder` with a file as its cache.

    Args:
        embedder: what embeds.
        kept: the vectors of the same model.
        meter: counts what was kept.
    """

    def __init__(self, embedder: Embedder, kept: KeptVectors, meter: EmbedderMeter | None = None) -> None:
        super().__init__(embedder)
        self._meter = meter or EmbedderMeter()
        self._kept = kept

    async def embed_query(self, text: str) -> Vector:
        """Embed a query, unless its vector is in the file."""
        vector = self._looked_up(text, "query")
        if vector is None:
            vector = await self._within.embed_query(text)
            self._kept.put(text, "query", vector)
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed those of the texts that are not kept. What is refused is not kept either."""
        found = {text: self._looked_up(text, "document") for text in texts}
        missing = [text for text in texts if found[text] is None]
        if missing:
            found.update(zip(missing, await self._embed(texts, missing), strict=True))
        return [vector for text in texts if (vector := found[text]) is not None]

    async def close(self) -> None:
        """Stop the model and close the file."""
        await self._within.close()
        self._kept.close()

    def _looked_up(self, text: str, purpose: Use) -> Vector | None:
        vector = self._kept.get(text, purpose)
        self._meter.looked_up("file", hit=vector is not None)
        return vector

    async def _embed(self, texts: Sequence[str], missing: Sequence[str]) -> list[Vector]:
        try:
            vectors = await self._within.embed_documents(missing)
        except TextRefusedError as refusal:
            raise TextRefusedError(texts.index(missing[refusal.position]), str(refusal)) from None
        for text, vector in zip(missing, vectors, strict=True):
            self._kept.put(text, "document", vector)
        return vectors
