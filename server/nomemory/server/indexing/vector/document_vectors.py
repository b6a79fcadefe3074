"""Embed the texts of messages, and cache the vectors, so that interrupted work is not lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder, TextRefusedError
from nomemory.server.embedding.vector import Vector

_MIN_CACHED: Final = 1024
_MISSING: Final = object()


class DocumentVectors:
    """Embed texts in calls of a suitable size.

    Args:
        embedder: the model.
        max_call_texts: maximum number of texts in one call.
        max_texts: maximum number of texts that are requested at once. At least twice as many are cached.

    Attributes:
        embedded: number of texts that have been embedded.
    """

    def __init__(self, embedder: Embedder, max_call_texts: int, max_texts: int) -> None:
        self._embedder = embedder
        self._max_call_texts = max_call_texts
        self._cache: LRUCache[str, Vector | None] = LRUCache(max(_MIN_CACHED, 2 * max_texts))
        self.embedded = 0

    async def embed(self, texts: Sequence[str], interrupted: Callable[[], bool]) -> bool:
        """Embed texts; return False if it was interrupted between two calls.

        Raises:
            Fault: EMBEDDER_UNAVAILABLE. Texts that were embedded before stay cached.
        """
        missing = [text for text in dict.fromkeys(texts) if self._cache.get(text, _MISSING) is _MISSING]
        for start in range(0, len(missing), self._max_call_texts):
            if start and interrupted():
                return False
            await self._embed_call(missing[start : start + self._max_call_texts])
        return True

    def vectors(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return the vectors of texts that were just embedded, or None if the model refused one of them."""
        vectors = [self._cache[text] for text in texts]
        usable = [vector for vector in vectors if vector is not None]
        return usable if len(usable) == len(vectors) else None

    async def _embed_call(self, texts: list[str]) -> None:
        """Embed texts together. A text that is refused is left out of the next attempt."""
        while texts:
            try:
                vectors = await self._embedder.embed_documents(texts)
            except TextRefusedError as refusal:
                self._cache[texts.pop(refusal.position)] = None
                continue
            self._cache.update(zip(texts, vectors, strict=True))
            self.embedded += len(texts)
            return
