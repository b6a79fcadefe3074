"""Spreads the embedded vector index over more shards when it has grown.

The shards in use go on serving. Points are read from them and stored in new ones, piece by piece; what is written
meanwhile goes to both. Nothing is embedded again. Each shard has a process, because the engine's calls hold the
interpreter's lock, and because damage then costs one shard.
"""

from __future__ import annotations

import asyncio
import math

from nomemory.server.faults import Fault
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.edge.layout import SHARDS_MAX
from nomemory.server.vector.edge.shards import EdgeShards, SpreadLostError
from nomemory.server.vector.protocol import NoRoomError

_log = get_logger("vectors")

_LOOK_S = 60.0
_ROOM = 1.5
"""New shards can grow by this before the index is spread again."""


def shards_for(points: int, shards: int, points_max: int) -> int:
    """Return how many shards an index should have: as many as it has, unless these hold too many points."""
    return shards if points <= shards * points_max else min(SHARDS_MAX, math.ceil(_ROOM * points / points_max))


class Growth:
    """Looks at the size of the index now and then.

    Args:
        index: the index.
        points_max: how many points a shard may hold, on the average.
    """

    def __init__(self, index: EdgeShards, points_max: int) -> None:
        self._index = index
        self._points_max = points_max

    async def run(self) -> None:
        """Work until it is cancelled. What does not work is tried again at the next look."""
        await asyncio.to_thread(self._index.tidy)
        while True:
            try:
                await self._look()
            except (Fault, SpreadLostError, NoRoomError) as error:
                _log.warning("the vector index could not be spread over more shards", cause=type(error).__name__)
            await asyncio.sleep(_LOOK_S)

    async def _look(self) -> None:
        wanted = shards_for(await self._index.size(), self._index.shards, self._points_max)
        if wanted > self._index.shards:
            await self._index.spread(wanted)
