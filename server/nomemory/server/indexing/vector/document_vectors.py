"""Embed the texts of messages and cache the vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder, TextRejectedError
from nomemory.server.embedding.vector import Vector

_MIN_CACHED: Final = 1024
_MISSING: Final = object()


class DocumentVectors:
    """An embedder with a cache, so that the texts of an interrupted batch are not embedded again.

    Args:
        max_call_texts: maximum number of texts in one call of the embedder.
        max_texts: maximum number of texts in one call of `embed`; the cache holds at least twice as many vectors.

    Attributes:
        embedded: number of texts that have been embedded since the start.
    """

    def __init__(self, embedder: Embedder, max_call_texts: int, max_texts: int) -> None:
        self._embedder = embedder
        self._max_call_texts = max_call_texts
        self._cache: LRUCache[str, Vector | None] = LRUCache(max(_MIN_CACHED, 2 * max_texts))
        self.embedded = 0

    async def embed(self, texts: Sequence[str], interrupted: Callable[[], bool]) -> bool:
        """Embed and cache texts in several calls of the embedder. Return False if interrupted between two calls.

        Raises:
            Fault: EMBEDDER_UNAVAILABLE; the vectors of completed calls stay cached.
        """
        missing = [text for text in dict.fromkeys(texts) if self._cache.get(text, _MISSING) is _MISSING]
        for start in range(0, len(missing), self._max_call_texts):
            if start and interrupted():
                return False
            await self._embed_call(missing[start : start + self._max_call_texts])
        return True

    def get_vectors(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return the vectors of texts from the cache, or None if the model rejected one of the texts."""
        vectors = [self._cache[text] for text in texts]
        usable = [vector for vector in vectors if vector is not None]
        return usable if len(usable) == len(vectors) else None

    async def _embed_call(self, texts: list[str]) -> None:
        """Embed texts in one call. If the model rejects a text, repeat the call without that text."""
        while texts:
            try:
                vectors = await self._embedder.embed_documents(texts)
            except TextRejectedError as refusal:
                self._cache[texts.pop(refusal.position)] = None
                continue
            self._cache.update(zip(texts, vectors, strict=True))
            self.embedded += len(texts)
            return
