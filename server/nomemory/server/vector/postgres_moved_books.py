"""How far the indexes by meaning are that servers of a log in PostgreSQL share, read when the log is moved away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nomemory.server.log.feed_position import FeedPosition
from nomemory.server.vector.shared_index import Filled, SetAside

if TYPE_CHECKING:
    from nomemory.server.log.postgres_connections import Connection

_CHECKPOINTS: Final = """
SELECT collection, array_agg(checkpoint ORDER BY bucket)
FROM index_collections JOIN index_buckets USING (collection) WHERE log = $1 GROUP BY collection
"""
_ASIDE: Final = "SELECT bucket, user_id, message_id, latest, reason FROM index_aside WHERE collection = $1"


async def filled_of(connection: Connection, log: str) -> dict[str, Filled]:
    """Return what is known of each index of a log (`LogIdentity.name`), by its name on the engine's server."""
    filled = {}
    for collection, checkpoints in await connection.fetch(_CHECKPOINTS, log):
        aside = [SetAside(*row) for row in await connection.fetch(_ASIDE, collection)]
        filled[collection] = Filled(FeedPosition(tuple(checkpoints)), aside)
    return filled
