"""The state of a vector index that several servers share."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.indexing.vector.leader_lock import (
    LOCK_KEY,
    QUERIED_CHANNEL,
    TABLES,
    PostgresLeaderLock,
    read_checkpoint,
)
from nomemory.server.search.semantic.hot_users import HotUserTracker
from nomemory.server.search.semantic.index_progress import IndexerStatus
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.conditions import Value
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.postgres.connections import ERRORS, Database, translate_errors
from nomemory.server.store.postgres.rows import build_users_clause, number_placeholders

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import ConnectionPool


_CACHED_S: Final = 2.0
"""Cache time of a checkpoint in seconds. It is limited, because a rebuild resets checkpoints."""


_MAX_IDS: Final = 100
_NOTIFY_AGAIN_S: Final = 5.0
_REACHED: Final = """
SELECT b.checkpoint, coalesce(u.sequence, 0) FROM index_buckets AS b LEFT JOIN index_users AS u
  ON (u.collection, u.bucket) = (b.collection, b.bucket) AND u.user_id = ?
WHERE b.collection = ? AND b.bucket = ?
"""
_COUNT_DEAD_LETTERS: Final = "SELECT count(*) FROM index_aside WHERE collection = ? AND {users}"
_LOCK: Final = f"SELECT pg_try_advisory_xact_lock({LOCK_KEY})"
_IS_USED: Final = """
SELECT 1 FROM index_members WHERE collection = ? AND seen > now() - interval '15 minutes' LIMIT 1
"""
_DEAD_LETTER_IDS: Final = """
SELECT message_id FROM index_aside WHERE collection = ? AND bucket = ? AND user_id = ? ORDER BY message_id LIMIT ?
"""


class PostgresSharedIndex:
    """The progress of a shared vector index, read from PostgreSQL. An instance belongs to one event loop.

    All coroutine methods raise the fault STORAGE_UNAVAILABLE while the database is unavailable.

    Args:
        collection: the name of the collection on the engine's server.
        lease_s: the lease time of the leader lock, in seconds.
    """

    def __init__(self, database: Database, collection: str, lease_s: float) -> None:
        self._database = database
        self._pool: ConnectionPool = database.create_pool()
        self._collection = collection
        self._lease_s = lease_s
        self._checkpoints: dict[int, tuple[float, int]] = {}
        self._notified = HotUserTracker(_NOTIFY_AGAIN_S)
        self._notifying: set[asyncio.Task[None]] = set()

    def create_leader_lock(self) -> PostgresLeaderLock:
        """Return a new leader lock, which can be acquired again after a release."""
        return PostgresLeaderLock(self._database, self._collection, self._lease_s)

    async def is_lagging(self, user_id: str, sequence: int) -> bool:
        """Return whether the index may lack changes of a user up to a sequence number.

        Checkpoints of buckets are cached, so most calls need no database query.
        """
        bucket = compute_bucket(user_id)
        read_at, checkpoint = self._checkpoints.get(bucket, (0.0, 0))
        if sequence <= checkpoint and time.monotonic() - read_at < _CACHED_S:
            return False
        is_behind = await self._read_applied_sequence(bucket, user_id) < sequence
        if is_behind and self._notified.record_query(user_id):
            self._notify_leader(user_id)
        return is_behind

    def poll(self) -> None:
        """Do nothing, because the leader polls the message log."""

    def record_query(self, user_id: str) -> None:
        """Do nothing, because `is_lagging` notifies the leader of queries for lagging users."""

    async def status(self, user_id: str | None = None, prefix: str = "") -> IndexerStatus:
        """Return the state of the index for one user, or for all users whose ids begin with a prefix."""
        checkpoint = await self.read_checkpoint()
        users = build_users_clause(user_id, prefix)
        ((dead_letters,),) = await self._fetch_rows(
            _COUNT_DEAD_LETTERS.format(users=users.condition), self._collection, *users.values
        )
        if user_id is None:
            return IndexerStatus(checkpoint, checkpoint, 0, dead_letters, ())
        bucket = compute_bucket(user_id)
        reached = FeedPosition.from_sequence(await self._read_applied_sequence(bucket, user_id))
        ids = (
            await self._fetch_rows(_DEAD_LETTER_IDS, self._collection, bucket, user_id, _MAX_IDS)
            if dead_letters
            else []
        )
        return IndexerStatus(reached, reached, 0, dead_letters, tuple(message_id for (message_id,) in ids))

    async def read_checkpoint(self) -> FeedPosition:
        """Return the position up to which every change is indexed or recorded as a dead letter."""
        with translate_errors("read"):
            async with self._pool.connection() as connection:
                return await read_checkpoint(connection, self._collection)

    async def delete_unused_state(self) -> bool:
        """Delete the state of the index unless a server has used the index recently; return whether it was deleted."""
        with translate_errors("written"):
            async with self._pool.connection() as connection, connection.transaction():
                if not await connection.fetchval(number_placeholders(_LOCK), self._collection):
                    return False
                if await connection.fetchval(number_placeholders(_IS_USED), self._collection):
                    return False
                for table in TABLES:
                    statement = f"DELETE FROM {table} WHERE collection = ?"  # noqa: S608 - constants
                    await connection.execute(number_placeholders(statement), self._collection)
                return True

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.gather(*self._notifying)
        await self._pool.close()

    async def _read_applied_sequence(self, bucket: int, user_id: str) -> int:
        """Return the sequence number up to which all changes of a user are indexed or recorded as dead letters."""
        read_at = time.monotonic()
        rows = await self._fetch_rows(_REACHED, user_id, self._collection, bucket)
        if not rows:
            return 0
        ((checkpoint, of_user),) = rows
        self._checkpoints[bucket] = read_at, checkpoint
        return int(max(checkpoint, of_user))

    def _notify_leader(self, user_id: str) -> None:
        """Notify the leader in the background that a user was queried."""
        task = asyncio.get_running_loop().create_task(self._send_notification(user_id))
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)

    async def _send_notification(self, user_id: str) -> None:
        try:
            async with self._pool.connection() as connection:
                await connection.execute("SELECT pg_notify($1, $2)", QUERIED_CHANNEL, f"{self._collection}\n{user_id}")
        except ERRORS:
            return  # the user's messages then get no priority

    async def _fetch_rows(self, statement: str, *values: Value) -> list[Any]:
        with translate_errors("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(number_placeholders(statement), *values))
