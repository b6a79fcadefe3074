"""The books of the indexes by meaning that servers of a log in PostgreSQL share, read when the log is moved away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nomemory.server.log.position import FeedPosition
from nomemory.server.vector.bucket_claims import SetAside
from nomemory.server.vector.moved_backlog import IndexBooks

if TYPE_CHECKING:
    from nomemory.server.log.postgres.connections import Connection

_CHECKPOINTS: Final = """
SELECT collection, array_agg(checkpoint ORDER BY bucket)
FROM index_collections JOIN index_buckets USING (collection) WHERE log = $1 GROUP BY collection
"""
_ASIDE: Final = "SELECT bucket, user_id, message_id, latest, reason FROM index_aside WHERE collection = $1"


async def books_of(connection: Connection, log: str) -> dict[str, IndexBooks]:
    """Return what is known of each index of a log (`LogIdentity.name`), by its name on the engine's server."""
    books = {}
    for collection, checkpoints in await connection.fetch(_CHECKPOINTS, log):
        aside = [SetAside(*row) for row in await connection.fetch(_ASIDE, collection)]
        books[collection] = IndexBooks(FeedPosition(tuple(checkpoints)), aside)
    return books
