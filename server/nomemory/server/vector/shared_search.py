"""The vector index, of which so many searches are asked at once, in the order of the reads that want them."""

from __future__ import annotations

from collections.abc import Sequence

from nomemory.server.admission.fair_slots import FairSlots
from nomemory.server.admission.ticket import turn_at, waiting_elsewhere
from nomemory.server.embedding.vector import Vector
from nomemory.server.message import Filter
from nomemory.server.vector.protocol import VectorHit, VectorSearch


class SharedVectors:
    """Implements `VectorSearch` over another. A search that is given up leaves the queue, or is withdrawn.

    Args:
        within: what searches.
        at_once: how many searches are with it at a time.
    """

    def __init__(self, within: VectorSearch, at_once: int) -> None:
        self._within = within
        self._slots = FairSlots(at_once)

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        async with waiting_elsewhere(), turn_at(self._slots):
            return await self._within.search(user_id, vector, narrowed, limit)

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        async with waiting_elsewhere(), turn_at(self._slots):
            return await self._within.vectors(user_id, message_ids)
