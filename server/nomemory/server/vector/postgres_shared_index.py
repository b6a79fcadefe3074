"""What every server knows of an index that several of them fill, from the log's database."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.log.position import FeedPosition, bucket_of
from nomemory.server.log.postgres.connections import ERRORS, Database, faults
from nomemory.server.log.postgres.rows import Value, numbered, users_clause
from nomemory.server.vector.hot_users import HotUsers
from nomemory.server.vector.index_progress import IndexerStatus
from nomemory.server.vector.postgres_index_books import LOCK, TABLES, PostgresIndexBooks, checkpoints_of, told_of

if TYPE_CHECKING:
    from nomemory.server.log.postgres.connections import Pool

_KNOWN_S: Final = 2.0
"""How long what was read of a bucket is believed: an index that is built anew goes back."""
_NAMED_MAX: Final = 100
_TELL_AGAIN_S: Final = 5.0
_REACHED: Final = """
SELECT b.checkpoint, coalesce(u.sequence, 0) FROM index_buckets AS b LEFT JOIN index_users AS u
  ON (u.collection, u.bucket) = (b.collection, b.bucket) AND u.user_id = ?
WHERE b.collection = ? AND b.bucket = ?
"""
_ASIDE: Final = "SELECT count(*) FROM index_aside WHERE collection = ? AND {users}"
_USED: Final = """
SELECT 1 FROM index_members WHERE collection = ? AND seen > now() - interval '15 minutes' LIMIT 1
"""
_ASIDE_IDS: Final = """
SELECT message_id FROM index_aside WHERE collection = ? AND bucket = ? AND user_id = ? ORDER BY message_id LIMIT ?
"""


class PostgresSharedIndex:
    """Implements `SharedIndex` and `VectorProgress`. Belongs to one event loop.

    Args:
        database: where the log is.
        collection: its name on the engine's server.
        lease_s: how long a claim lasts without being renewed, in seconds.
    """

    def __init__(self, database: Database, collection: str, lease_s: float) -> None:
        self._database = database
        self._pool: Pool = database.pool()
        self._collection = collection
        self._lease_s = lease_s
        self._known: dict[int, tuple[float, int]] = {}
        self._told = HotUsers(_TELL_AGAIN_S)
        self._telling: set[asyncio.Task[None]] = set()

    def claims(self) -> PostgresIndexBooks:
        """Return the books, for a server that fills buckets."""
        return PostgresIndexBooks(self._database, self._collection, self._lease_s)

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be in the index yet.

        What a bucket has reached is remembered, so that most calls ask nobody.
        """
        bucket = bucket_of(user_id)
        read_at, checkpoint = self._known.get(bucket, (0.0, 0))
        if sequence <= checkpoint and time.monotonic() - read_at < _KNOWN_S:
            return False
        is_behind = await self._reached(bucket, user_id) < sequence
        if is_behind and self._told.note(user_id):
            self._tell(user_id)
        return is_behind

    def look(self) -> None:
        """Do nothing: as with `note_query`."""

    def note_query(self, user_id: str) -> None:
        """Do nothing: who is behind is told to those who fill the index when it is found out."""

    async def status(self, user_id: str | None = None, prefix: str = "") -> IndexerStatus:
        """Say how far the index has come, for one user or for all whose ids begin with a prefix."""
        checkpoint = await self.checkpoints()
        users = users_clause(user_id, prefix)
        ((aside,),) = await self._fetch(_ASIDE.format(users=users.condition), self._collection, *users.values)
        if user_id is None:
            return IndexerStatus(checkpoint, checkpoint, 0, aside, ())
        bucket = bucket_of(user_id)
        reached = FeedPosition.at(await self._reached(bucket, user_id))
        ids = await self._fetch(_ASIDE_IDS, self._collection, bucket, user_id, _NAMED_MAX) if aside else []
        return IndexerStatus(reached, reached, 0, aside, tuple(message_id for (message_id,) in ids))

    async def checkpoints(self) -> FeedPosition:
        """Return up to where everything has been applied or set aside, whoever did it."""
        return await checkpoints_of(self._pool, self._collection)

    async def abandoned(self) -> bool:
        """Close the books if no server has used the index for a while; return whether that is so."""
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(numbered(LOCK), self._collection)
                if await connection.fetchval(numbered(_USED), self._collection):
                    return False
                for table in TABLES:
                    statement = f"DELETE FROM {table} WHERE collection = ?"  # noqa: S608 - ours
                    await connection.execute(numbered(statement), self._collection)
                return True

    async def close(self) -> None:
        """Close its connections."""
        await asyncio.gather(*self._telling)
        await self._pool.close()

    async def _reached(self, bucket: int, user_id: str) -> int:
        """Return up to where everything of a user has been applied or set aside."""
        read_at = time.monotonic()
        rows = await self._fetch(_REACHED, user_id, self._collection, bucket)
        if not rows:
            return 0
        ((checkpoint, of_user),) = rows
        self._known[bucket] = read_at, checkpoint
        return int(max(checkpoint, of_user))

    def _tell(self, user_id: str) -> None:
        """Have those who fill the index hear that a user is being queried; nobody waits for it."""
        task = asyncio.get_running_loop().create_task(self._tell_them(user_id))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_them(self, user_id: str) -> None:
        try:
            async with self._pool.connection() as connection:
                await connection.execute("SELECT pg_notify($1, $2)", *told_of(self._collection, user_id))
        except ERRORS:
            return  # the user's messages come in their turn

    async def _fetch(self, statement: str, *values: Value) -> list[Any]:
        with faults("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(numbered(statement), *values))
