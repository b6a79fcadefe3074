"""The leader lock of a shared vector index, and the progress that the leader publishes.

The lock is an advisory lock of a PostgreSQL session. The database ends a session that is idle for the lease time, so
another server can acquire the lock if the leader hangs or loses its connection. Progress is published in the same
session, so a server that has lost the lock cannot publish.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from nomemory.server.search.semantic.index_progress import DeadLetter, IndexCheckpoint, IndexProgress
from nomemory.server.store.buckets import BUCKETS
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.postgres.connections import ERRORS, Database, translate_errors
from nomemory.server.store.postgres.rows import number_placeholders

if TYPE_CHECKING:
    import asyncpg

    from nomemory.server.store.postgres.connections import Connection

QUERIED_CHANNEL: Final = "nomemory_queried"
"""The channel that notifies the leader of queried users. The payload is the collection, a line feed and the user."""
LOCK_KEY: Final = "hashtextextended('nomemory index ' || current_schema() || ' ' || ?, 0)"
"""The key of the advisory lock of a collection."""
_SELECT_DEAD_LETTERS: Final = "SELECT bucket, user_id, message_id, latest, reason FROM index_aside WHERE collection = ?"

_NAME_BYTES: Final = 8
_LOCK: Final = f"SELECT pg_try_advisory_lock({LOCK_KEY})"
_END_IF_SILENT: Final = "SELECT set_config('idle_session_timeout', ?, false)"
_HAS_OTHER_HOLDER: Final = """
SELECT EXISTS (SELECT 1 FROM index_buckets WHERE collection = ? AND holder NOT IN ('', ?))
"""
_FOLLOWS_LOG: Final = "SELECT 1 FROM index_collections WHERE collection = ? AND log = ?"
_SET_LOG: Final = """
INSERT INTO index_collections (collection, log) VALUES (?, ?)
ON CONFLICT (collection) DO UPDATE SET log = excluded.log
"""
_TABLES_OF_BUCKETS: Final = ("index_buckets", "index_aside", "index_users")
TABLES: Final = (*_TABLES_OF_BUCKETS, "index_members", "index_collections")
_INSERT_BUCKETS: Final = """
INSERT INTO index_buckets (collection, bucket, checkpoint)
SELECT ?, place - 1, checkpoint FROM unnest(?::bigint[]) WITH ORDINALITY AS at(checkpoint, place)
"""
_SET_HOLDER: Final = "UPDATE index_buckets SET holder = ?, until = 'infinity' WHERE collection = ?"
_RELEASE: Final = "UPDATE index_buckets SET holder = '', until = '-infinity' WHERE collection = ? AND holder = ?"
_SEEN: Final = """
INSERT INTO index_members (collection, name) VALUES (?, ?) ON CONFLICT (collection, name) DO UPDATE SET seen = now()
"""
_PUBLISH: Final = """
UPDATE index_buckets AS b SET checkpoint = now.checkpoint
FROM unnest(?::bigint[]) WITH ORDINALITY AS now(checkpoint, place)
WHERE b.collection = ? AND b.bucket = now.place - 1 AND b.checkpoint < now.checkpoint
"""
_INSERT_USERS: Final = """
INSERT INTO index_users (collection, bucket, user_id, sequence)
SELECT ?, * FROM unnest(?::smallint[], ?::text[], ?::bigint[])
ON CONFLICT (collection, bucket, user_id) DO UPDATE SET sequence = greatest(index_users.sequence, excluded.sequence)
"""
_DELETE_PASSED_USERS: Final = """
DELETE FROM index_users AS u USING index_buckets AS b
WHERE (b.collection, b.bucket) = (u.collection, u.bucket) AND u.sequence <= b.checkpoint AND u.collection = ?
"""
_DELETE_USERS: Final = "DELETE FROM index_users WHERE collection = ?"
_DELETE_DEAD_LETTERS: Final = "DELETE FROM index_aside WHERE collection = ?"
_INSERT_DEAD_LETTERS: Final = """
INSERT INTO index_aside (collection, bucket, user_id, message_id, latest, reason)
SELECT ?, * FROM unnest(?::smallint[], ?::text[], ?::text[], ?::bigint[], ?::text[])
"""
_START_OVER: Final = "UPDATE index_buckets SET checkpoint = 0 WHERE collection = ?"
_CHECKPOINT: Final = "SELECT checkpoint FROM index_buckets WHERE collection = ? ORDER BY bucket"
_DELETE_MEMBER: Final = "DELETE FROM index_members WHERE collection = ? AND name = ?"
_DELETE_OLD_MEMBERS: Final = "DELETE FROM index_members WHERE collection = ? AND seen < now() - interval '1 day'"


class PostgresLeaderLock:
    """The leader lock of a shared vector collection. Concurrent calls are not supported.

    The column `holder` in `index_buckets` names a leader that did not release the lock. Servers of an earlier version,
    which used time-limited leases, treat the buckets as permanently locked.

    All methods except `disconnect` and `release` raise the fault STORAGE_UNAVAILABLE if the database is unavailable.
    The lock is lost after the fault STORAGE_UNAVAILABLE.

    Args:
        collection: the name of the collection on the engine's server.
        lease_s: the lease time in seconds, after which an idle session loses the lock.
    """

    def __init__(self, database: Database, collection: str, lease_s: float) -> None:
        self.lease_s = lease_s
        self._database = database
        self._collection = collection
        self._name = os.urandom(_NAME_BYTES).hex()
        self._open: asyncpg.Connection[asyncpg.Record] | None = None

    async def acquire(self) -> bool:
        """Try to acquire the lock, and record that this server uses the index. Return whether the lock was acquired."""
        with translate_errors("written"):
            if self._open is None:
                self._open = await self._database.connect()
                await self._open.fetchval(number_placeholders(_END_IF_SILENT), str(int(self.lease_s * 1000)))
            await self._open.execute(number_placeholders(_SEEN), self._collection, self._name)
            return bool(await self._open.fetchval(number_placeholders(_LOCK), self._collection))

    async def was_released(self) -> bool:
        """Return whether the previous leader released the lock.

        A leader that did not release the lock may still be writing.
        """
        with translate_errors("read"):
            return not await self._connection.fetchval(
                number_placeholders(_HAS_OTHER_HOLDER), self._collection, self._name
            )

    async def renew(self) -> None:
        """Renew the lease, and record that this server uses the index."""
        with translate_errors("written"):
            await self._connection.execute(number_placeholders(_SEEN), self._collection, self._name)

    async def record_leader(
        self, log: str, followed: FeedPosition | None, reset: Callable[[], Awaitable[None]]
    ) -> None:
        """Record this server as the leader of the index, which follows the message log with the name `log`.

        An index that has not followed this message log before gets the checkpoint `followed`, or is emptied with
        `reset` if `followed` is None.
        """
        with translate_errors("written"):
            async with self._connection.transaction():
                if not await self._connection.fetchval(number_placeholders(_FOLLOWS_LOG), self._collection, log):
                    await self._replace_followed_log(log, followed, reset)
                await self._connection.execute(number_placeholders(_SET_HOLDER), self._name, self._collection)

    async def read_checkpoint(self) -> IndexCheckpoint:
        """Return the checkpoint of the index and its dead letters."""
        with translate_errors("read"):
            rows = await self._connection.fetch(number_placeholders(_SELECT_DEAD_LETTERS), self._collection)
            dead_letters = [DeadLetter(*row) for row in rows]
            return IndexCheckpoint(await read_checkpoint(self._connection, self._collection), dead_letters)

    async def publish_progress(self, progress: IndexProgress) -> None:
        """Publish the indexing progress to all servers."""
        with translate_errors("written"):
            async with self._connection.transaction():
                await self._publish_messages(progress)
                checkpoints = [progress.checkpoint.get_sequence(bucket) for bucket in range(BUCKETS)]
                await self._connection.execute(number_placeholders(_PUBLISH), checkpoints, self._collection)
                await self._connection.execute(number_placeholders(_DELETE_PASSED_USERS), self._collection)

    async def start_over(self) -> None:
        """Reset the checkpoint, so that the index is filled from the beginning of the message log."""
        with translate_errors("written"):
            async with self._connection.transaction():
                await self._connection.execute(number_placeholders(_START_OVER), self._collection)
                await self._connection.execute(number_placeholders(_DELETE_USERS), self._collection)

    async def listen(self, on_query: Callable[[str], None]) -> None:
        """Call `on_query` with each user who is queried at any server while the index lags, until the lock is lost."""
        with translate_errors("read"):
            await self._connection.add_listener(
                QUERIED_CHANNEL, lambda *arguments: self._on_notification(on_query, str(arguments[-1]))
            )

    async def disconnect(self) -> None:
        """Close the connection, which frees the lock without recording its release."""
        if self._open is not None:
            self._open.terminate()
            self._open = None

    async def release(self) -> None:
        """Release the lock after the last write to the index, and record that this server no longer uses the index."""
        if self._open is not None:
            with suppress(*ERRORS):
                await self._open.execute(number_placeholders(_RELEASE), self._collection, self._name)
                await self._open.execute(number_placeholders(_DELETE_MEMBER), self._collection, self._name)
                await self._open.execute(number_placeholders(_DELETE_OLD_MEMBERS), self._collection)
        await self.disconnect()

    @property
    def _connection(self) -> asyncpg.Connection[asyncpg.Record]:
        if self._open is None:
            raise RuntimeError("the lock is not held; call acquire first")
        return self._open

    async def _replace_followed_log(
        self, log: str, followed: FeedPosition | None, reset: Callable[[], Awaitable[None]]
    ) -> None:
        if followed is None:
            await reset()
        for table in _TABLES_OF_BUCKETS:
            statement = f"DELETE FROM {table} WHERE collection = ?"  # noqa: S608 - constants
            await self._connection.execute(number_placeholders(statement), self._collection)
        position = followed or FeedPosition()
        checkpoints = [position.get_sequence(bucket) for bucket in range(BUCKETS)]
        await self._connection.execute(number_placeholders(_INSERT_BUCKETS), self._collection, checkpoints)
        await self._connection.execute(number_placeholders(_SET_LOG), self._collection, log)

    async def _publish_messages(self, progress: IndexProgress) -> None:
        """Publish dead letters, and users whose checkpoint is ahead of the checkpoint of their bucket."""
        if progress.dead_letters is not None:
            await self._connection.execute(number_placeholders(_DELETE_DEAD_LETTERS), self._collection)
            if progress.dead_letters:
                columns = map(list, zip(*progress.dead_letters, strict=True))
                await self._connection.execute(number_placeholders(_INSERT_DEAD_LETTERS), self._collection, *columns)
        if progress.user_checkpoints:
            columns = map(list, zip(*progress.user_checkpoints, strict=True))
            await self._connection.execute(number_placeholders(_INSERT_USERS), self._collection, *columns)

    def _on_notification(self, on_query: Callable[[str], None], payload: str) -> None:
        collection, _, user_id = payload.partition("\n")
        if collection == self._collection:
            on_query(user_id)


async def read_checkpoint(connection: Connection, collection: str) -> FeedPosition:
    """Return the checkpoint of a collection, up to which every change is indexed or recorded as a dead letter."""
    rows = await connection.fetch(number_placeholders(_CHECKPOINT), collection)
    return FeedPosition(tuple(checkpoint for (checkpoint,) in rows)) if rows else FeedPosition()
