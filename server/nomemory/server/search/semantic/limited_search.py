"""Limit the number of concurrent searches of a vector index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.server.embedding.vector import Vector
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.search.semantic.protocol import VectorHit, VectorSearch

_SEARCHES: Final = 8
"""Maximum number of concurrent searches."""


class LimitedVectorSearch:
    """Wraps a `VectorSearch` with a concurrency limit.

    The users of waiting searches are served in turn (round-robin).
    """

    def __init__(self, search: VectorSearch) -> None:
        self._search = search
        self._limit = RoundRobinLimit(_SEARCHES)

    async def search(self, user_id: str, vector: Vector, filters: Filter, limit: int) -> list[VectorHit]:
        """Return the most similar messages."""
        async with self._limit.slot(user_id):
            return await self._search.search(user_id, vector, filters, limit)

    async def read_vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vector of the first part of each message."""
        async with self._limit.slot(user_id):
            return await self._search.read_vectors(user_id, message_ids)
