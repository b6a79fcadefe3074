"""An embedder without a model: texts are similar if they share sequences of three characters."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from nomemory.server.embedding.vector import NUMBER, Vector, normalize_vector
from nomemory.server.runtime.settings import Settings


class Trigrams:
    """Counts the trigrams of a text in hash buckets, one bucket per dimension."""

    kind = "trigrams"
    model = "trigrams-v1"

    def __init__(self, settings: Settings) -> None:
        self.dimension = settings.embedder.dimension or 256

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        return self._vector(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed the texts of stored messages."""
        return [self._vector(text) for text in texts]

    async def close(self) -> None:
        """Do nothing: there is no model to stop."""

    def _vector(self, text: str) -> Vector:
        padded = f"  {text.casefold()} "
        counts = np.zeros(self.dimension, NUMBER)
        for start in range(len(padded) - 2):
            counts[self._bucket(padded[start : start + 3])] += 1
        return normalize_vector(counts.tobytes(), self.dimension)

    def _bucket(self, trigram: str) -> int:
        return int.from_bytes(blake2b(trigram.encode(), digest_size=4).digest()) % self.dimension
