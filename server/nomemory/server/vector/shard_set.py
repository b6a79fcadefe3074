"""Shards of the embedded engine that share the users among them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from nomemory.server.vector.edge_calls import WholePoint
from nomemory.server.vector.edge_index import EdgeIndex
from nomemory.server.vector.points import USER
from nomemory.server.vector.protocol import VectorPoint
from nomemory.server.vector.shard_layout import shard_of

_T = TypeVar("_T")


class ShardSet:
    """Some shards. Each user's points are in one of them.

    Attributes:
        shards: by number.
    """

    def __init__(self, shards: Sequence[EdgeIndex]) -> None:
        self.shards = shards

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.shards)

    def of(self, user_id: str) -> EdgeIndex:
        """Return the shard with a user's points."""
        return self.shards[shard_of(user_id, len(self.shards))]

    def by_shard(self, items: Iterable[_T], user_of: Callable[[_T], str]) -> dict[EdgeIndex, list[_T]]:
        """Group what belongs to users by their shard; each group in the order of the items."""
        groups: dict[EdgeIndex, list[_T]] = defaultdict(list)
        for item in items:
            groups[self.of(user_of(item))].append(item)
        return groups

    async def store(self, usable: Sequence[VectorPoint]) -> None:
        """Store points whose vectors have length one."""
        groups = self.by_shard(usable, lambda point: point.user_id)
        await asyncio.gather(*(shard.store(points) for shard, points in groups.items()))

    async def store_whole(self, points: Sequence[WholePoint]) -> None:
        """Store points as they were read from other shards."""
        groups = self.by_shard(points, lambda point: str(point.payload[USER]))
        await asyncio.gather(*(shard.store_whole(whole) for shard, whole in groups.items()))

    async def remove(self, user_id: str, message_id: str, from_part: int) -> None:
        """Remove the points of a message from a part on."""
        await self.of(user_id).remove(user_id, message_id, from_part=from_part)

    async def flush(self) -> None:
        """Make everything that was stored survive a power cut."""
        await asyncio.gather(*(shard.flush() for shard in self.shards))

    async def count(self, *, exact: bool) -> int:
        """Count the points."""
        return sum(await asyncio.gather(*(shard.count(exact=exact) for shard in self.shards)))

    async def close(self) -> None:
        """Flush, and end the workers."""
        await asyncio.gather(*(shard.close() for shard in self.shards))

    async def abandon(self) -> None:
        """End the workers at once: their files are of no use to anybody."""
        await asyncio.gather(*(shard.abandon() for shard in self.shards))
