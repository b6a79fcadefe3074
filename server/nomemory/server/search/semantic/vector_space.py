"""A vector space: an embedding model and the index of its vectors. Vectors of two models are never compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.search.semantic.protocol import VectorSearch


class VectorProgress(Protocol):
    """The progress of a vector index, per user."""

    async def is_lagging(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to `sequence` may not be in the index yet."""

    def poll(self) -> None:
        """Poll the log now, because a read waits for what another server may have written."""

    def record_query(self, user_id: str) -> None:
        """Record that this user is being queried: their backlog goes first."""


_LOCAL_QUERIES: Final = 2
"""The local embedder takes one text after another. A second one is there when the first is done."""
_REMOTE_QUERIES: Final = 64


def query_limit(embedder: Embedder) -> RoundRobinLimit:
    """Return the limit of the queries that an embedder gets at a time."""
    return RoundRobinLimit(_LOCAL_QUERIES if embedder.kind == "local" else _REMOTE_QUERIES)


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """A model and the index of its vectors.

    Attributes:
        name: the name of the collection, which identifies the space in a server.
        embedder: the model.
        vectors: searches the index. Users take turns.
        progress: the progress of the index.
        queries: limits how many queries are with the embedder at a time. Users take turns.
    """

    name: str
    embedder: Embedder
    vectors: VectorSearch
    progress: VectorProgress
    queries: RoundRobinLimit = field(default_factory=lambda: RoundRobinLimit(_REMOTE_QUERIES))

    async def embed_query(self, user_id: str, text: str) -> Vector:
        """Embed a query of a user. A cancelled one leaves the queue."""
        async with self.queries.slot(user_id):
            return await self.embedder.embed_query(text)
