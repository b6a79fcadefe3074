"""No embedder: messages are found by meaning only if callers bring vectors of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason


class NoEmbedder:
    """Implements `Embedder`; refuses every text with EMBEDDER_DISABLED.

    Args:
        dimension: how many numbers the callers' vectors have.
    """

    kind = "none"
    model = "none"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    async def embed_query(self, text: str) -> Vector:
        """Refuse."""
        self._refuse(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Refuse."""
        self._refuse(texts)

    async def close(self) -> None:
        """Do nothing."""

    def _refuse(self, _: object) -> NoReturn:
        raise Fault(
            Reason.ERROR_REASON_EMBEDDER_DISABLED,
            "this server has no embedder: send query_embedding, or set NOMEMORY_EMBEDDER",
        )
