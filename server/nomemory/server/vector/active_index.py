"""The model and index that reads use. Vectors of two models are never compared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from nomemory.server.admission.round_robin_limit import RoundRobinLimit
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.message import Filter
from nomemory.server.vector.protocol import VectorHit, VectorSearch


class VectorProgress(Protocol):
    """The progress of a vector index, per user."""

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to `sequence` may not be in the index yet."""

    def look(self) -> None:
        """Poll the log now, because a read waits for what another server may have written."""

    def note_query(self, user_id: str) -> None:
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


class SpaceLease:
    """Reference-counted lease on a vector space. Entering it returns the space, for one read."""

    __slots__ = ("_unused", "reads", "space")

    def __init__(self, space: VectorSpace) -> None:
        self.space = space
        self.reads = 0
        self._unused: asyncio.Event | None = None

    def __enter__(self) -> VectorSpace:
        """Start a read."""
        self.reads += 1
        return self.space

    def __exit__(self, *_error: object) -> None:
        """End a read."""
        self.reads -= 1
        if self._unused is not None and not self.reads:
            self._unused.set()

    async def unused(self) -> None:
        """Wait until the last read has ended. No read may start meanwhile."""
        self._unused = asyncio.Event()
        if self.reads:
            await self._unused.wait()


class ServingSpace:
    """The space that reads use. A read keeps the space with which it started until it ends.

    Args:
        space: the first space.
    """

    def __init__(self, space: VectorSpace) -> None:
        self._now = SpaceLease(space)

    @property
    def now(self) -> VectorSpace:
        """The space of reads that start now."""
        return self._now.space

    def used(self) -> SpaceLease:
        """Return a lease for one read."""
        return self._now

    async def replace(self, space: VectorSpace, longest_s: float) -> VectorSpace:
        """Let further reads use another space; return the former one when no read uses it, or after so many seconds."""
        former = self._now
        self._now = SpaceLease(space)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await former.unused()
        return former.space


_SEARCHES: Final = 8
"""Searches that are with the vector index at a time."""


class LimitedVectorSearch:
    """Implements `VectorSearch` over another, for a few searches at a time. Users take turns.

    Args:
        searched: what searches.
    """

    def __init__(self, searched: VectorSearch) -> None:
        self._searched = searched
        self._limit = RoundRobinLimit(_SEARCHES)

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        async with self._limit.slot(user_id):
            return await self._searched.search(user_id, vector, narrowed, limit)

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        async with self._limit.slot(user_id):
            return await self._searched.vectors(user_id, message_ids)
