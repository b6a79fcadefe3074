"""Limit the number of concurrent searches of a vector index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.server.embedding.vector import Vector
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.search.semantic.protocol import VectorHit, VectorSearch

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

    async def search(self, user_id: str, vector: Vector, filters: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        async with self._limit.slot(user_id):
            return await self._searched.search(user_id, vector, filters, limit)

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        async with self._limit.slot(user_id):
            return await self._searched.vectors(user_id, message_ids)
