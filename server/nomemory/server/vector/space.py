"""What one model's vectors are searched with. Vectors of two models are never compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.vector.protocol import VectorSearch


class VectorProgress(Protocol):
    """How far the vector index has come, user by user."""

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to `sequence` is not applied yet."""

    def look(self) -> None:
        """Have the log looked at now, because somebody waits for what another server may have written."""

    def note_query(self, user_id: str) -> None:
        """Remember that this user is being queried: their backlog goes first."""


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """A model, and the index of what it has embedded.

    Attributes:
        name: of the collection; two spaces of a server have two.
        embedder: makes the vectors.
        vectors: finds the nearest of them, for so many reads at a time.
        direct: the same, for reads that have waited for their turn in another process.
        progress: tells how far the index is.
    """

    name: str
    embedder: Embedder
    vectors: VectorSearch
    direct: VectorSearch
    progress: VectorProgress
