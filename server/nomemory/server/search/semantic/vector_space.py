"""Vector spaces, which pair an embedding model with an index. Vectors of different models are never compared."""

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
        """Return whether the index may lack a change of this user up to `sequence`."""

    def poll(self) -> None:
        """Poll the message log at once, because a read waits for a write, possibly of another server."""

    def record_query(self, user_id: str) -> None:
        """Record a query of a user, so that the user's backlog is indexed first."""


_LOCAL_QUERIES: Final = 2
"""Concurrent queries of the local embedder: it processes one text at a time, and a second one waits in its queue."""
_REMOTE_QUERIES: Final = 64


def query_limit(embedder: Embedder) -> RoundRobinLimit:
    """Return the concurrency limit for queries to an embedder."""
    return RoundRobinLimit(_LOCAL_QUERIES if embedder.kind == "local" else _REMOTE_QUERIES)


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """An embedding model with the index of its vectors.

    Attributes:
        name: the name of the collection, which identifies the vector space within a server.
        vectors: the search in the index, which serves users in turn (round-robin).
        queries: the limit of concurrent queries to the embedder, which serves users in turn (round-robin).
    """

    name: str
    embedder: Embedder
    vectors: VectorSearch
    progress: VectorProgress
    queries: RoundRobinLimit = field(default_factory=lambda: RoundRobinLimit(_REMOTE_QUERIES))

    async def embed_query(self, user_id: str, text: str) -> Vector:
        """Embed a query of a user. A cancelled query leaves the queue of the embedder."""
        async with self.queries.slot(user_id):
            return await self.embedder.embed_query(text)
