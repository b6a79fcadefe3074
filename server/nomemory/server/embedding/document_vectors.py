"""The vectors of the latest document texts, each distinct text embedded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder, TextRefusedError
from nomemory.server.embedding.vector import Vector

_KEPT_MIN = 1024


class DocumentVectors:
    """Embeds texts in calls of a fitting size, and keeps the results, so that work that is interrupted is not lost.

    Args:
        embedder: what embeds.
        call_max: most texts in one call of it.
        texts_max: most texts that are asked for at once; at least twice as many are kept.
    """

    def __init__(self, embedder: Embedder, call_max: int, texts_max: int) -> None:
        self._embedder = embedder
        self._call_max = call_max
        self._kept: LRUCache[str, Vector | None] = LRUCache(max(_KEPT_MIN, 2 * texts_max))
        self.embedded = 0

    async def embed(self, texts: Sequence[str], interrupted: Callable[[], bool]) -> bool:
        """Embed these texts; return False if it was interrupted between two calls.

        Raises:
            Fault: EMBEDDER_UNAVAILABLE; what was embedded before is kept.
        """
        missing = []
        for text in dict.fromkeys(texts):
            try:
                self._kept[text]  # to look one up makes it the latest
            except KeyError:
                missing.append(text)
        for at in range(0, len(missing), self._call_max):
            if at and interrupted():
                return False
            await self._call(missing[at : at + self._call_max])
        return True

    def vectors(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return the vectors of texts that were just embedded, or None if the model refused one of them."""
        found = [self._kept[text] for text in texts]
        usable = [vector for vector in found if vector is not None]
        return usable if len(usable) == len(found) else None

    async def _call(self, texts: list[str]) -> None:
        """Embed texts together; one that is refused is noted and left out of the next try."""
        while texts:
            try:
                vectors = await self._embedder.embed_documents(texts)
            except TextRefusedError as refusal:
                self._kept[texts.pop(refusal.position)] = None
                continue
            self._kept.update(zip(texts, vectors, strict=True))
            self.embedded += len(texts)
            return
