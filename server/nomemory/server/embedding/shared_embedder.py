"""The embedder, of which so many queries are asked at once, in the order of the reads that want them."""

from __future__ import annotations

from collections.abc import Sequence

from nomemory.server.admission.fair_slots import FairSlots
from nomemory.server.admission.ticket import turn_at
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrapper import EmbedderWrapper
from nomemory.server.metrics.meters import EmbedderMeter

_AT_ONCE = 64
_AT_ONCE_LOCAL = 2
"""The local embedder takes one text after another. The second is there when the first is done."""


class SharedEmbedder(EmbedderWrapper):
    """An `Embedder` around another. A query that is given up leaves the queue, or is withdrawn.

    Args:
        within: what embeds.
        at_once: how many queries are with it at a time; 0 chooses by its kind.
        meter: is told how many wait.
    """

    def __init__(self, within: Embedder, at_once: int, meter: EmbedderMeter | None = None) -> None:
        super().__init__(within)
        self._slots = FairSlots(at_once or (_AT_ONCE_LOCAL if within.kind == "local" else _AT_ONCE))
        if meter is not None:
            meter.follow(self._slots)

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        async with turn_at(self._slots):
            return await self._within.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        await self._within.close()
