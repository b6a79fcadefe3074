"""The embedder as the rest of the server sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nomemory.server.embedding.vector import Vector


class TextRefusedError(Exception):
    """The model can never embed this text. `position` is its place in the call."""

    def __init__(self, position: int, cause: str) -> None:
        super().__init__(cause)
        self.position = position


class Embedder(Protocol):
    """Turns texts into unit vectors of `dimension` numbers. All methods run on the event loop.

    Raises (both embedding methods): Fault EMBEDDER_UNAVAILABLE for what may pass (a time-out, a rate limit, a crash),
    Fault EMBEDDER_DISABLED where there is none.
    """

    @property
    def kind(self) -> str:
        """`local`, `openai`, `none`, or what an embedder of another package calls itself."""

    @property
    def model(self) -> str:
        """The model's name; vectors of different models are never compared."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    async def embed_query(self, text: str) -> Vector:
        """Embed a query. It does not wait behind documents."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents.

        Raises:
            TextRefusedError: one of the texts can never be embedded; none of the others was returned.
        """

    async def close(self) -> None:
        """Stop the model."""
