"""How far the indexes by meaning are that servers of a log in PostgreSQL share, read when the log is moved away.

The lock of the server that fills a shared index, and what it writes down.

The lock is an advisory one of a connection. The database ends a connection that says nothing for the time of the lock,
so that another server gets it also where the one before hangs, or is cut off. What is written down goes through the
same connection: who has lost the lock writes nothing down.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.log.conditions import Value
from nomemory.server.log.position import BUCKETS, FeedPosition, bucket_of
from nomemory.server.log.postgres.connections import ERRORS, Database, faults
from nomemory.server.log.postgres.rows import numbered, users_clause
from nomemory.server.vector.indexing.hot_users import HotUsers
from nomemory.server.vector.indexing.progress import DeadLetter, IndexCheckpoint, IndexerStatus, IndexProgress

if TYPE_CHECKING:
    import asyncpg

    from nomemory.server.log.postgres.connections import Connection, Pool


_HOLDER_BYTES: Final = 8
_QUERIED: Final = "nomemory_queried"
"""The channel on which the filler is told of a user who is being queried: the collection, and in a line the user."""
LOCK_KEY: Final = "hashtextextended('nomemory index ' || current_schema() || ' ' || ?, 0)"
"""The number of a collection's lock."""


_TAKE: Final = f"SELECT pg_try_advisory_lock({LOCK_KEY})"
_END_IF_SILENT: Final = "SELECT set_config('idle_session_timeout', ?, false)"
_WAS_KEPT: Final = "SELECT EXISTS (SELECT 1 FROM index_buckets WHERE collection = ? AND holder NOT IN ('', ?))"
_KNOWN: Final = "SELECT 1 FROM index_collections WHERE collection = ? AND log = ?"
_BEGUN: Final = """
INSERT INTO index_collections (collection, log) VALUES (?, ?)
ON CONFLICT (collection) DO UPDATE SET log = excluded.log
"""
_OF_BUCKETS: Final = ("index_buckets", "index_aside", "index_users")
TABLES: Final = (*_OF_BUCKETS, "index_members", "index_collections")
_ALL_BUCKETS: Final = """
INSERT INTO index_buckets (collection, bucket, checkpoint)
SELECT ?, place - 1, checkpoint FROM unnest(?::bigint[]) WITH ORDINALITY AS at(checkpoint, place)
"""
_KEEP: Final = "UPDATE index_buckets SET holder = ?, until = 'infinity' WHERE collection = ?"
_RELEASE: Final = "UPDATE index_buckets SET holder = '', until = '-infinity' WHERE collection = ? AND holder = ?"
_HERE: Final = """
INSERT INTO index_members (collection, name) VALUES (?, ?) ON CONFLICT (collection, name) DO UPDATE SET seen = now()
"""
_PUBLISH: Final = """
UPDATE index_buckets AS b SET checkpoint = now.checkpoint
FROM unnest(?::bigint[]) WITH ORDINALITY AS now(checkpoint, place)
WHERE b.collection = ? AND b.bucket = now.place - 1 AND b.checkpoint < now.checkpoint
"""
_USERS: Final = """
INSERT INTO index_users (collection, bucket, user_id, sequence)
SELECT ?, * FROM unnest(?::smallint[], ?::text[], ?::bigint[])
ON CONFLICT (collection, bucket, user_id) DO UPDATE SET sequence = greatest(index_users.sequence, excluded.sequence)
"""
_PASSED: Final = """
DELETE FROM index_users AS u USING index_buckets AS b
WHERE (b.collection, b.bucket) = (u.collection, u.bucket) AND u.sequence <= b.checkpoint AND u.collection = ?
"""
_NOBODY_FURTHER: Final = "DELETE FROM index_users WHERE collection = ?"
_ASIDE: Final = "SELECT bucket, user_id, message_id, latest, reason FROM index_aside WHERE collection = ?"
_NO_LONGER_ASIDE: Final = "DELETE FROM index_aside WHERE collection = ?"
_SET_ASIDE: Final = """
INSERT INTO index_aside (collection, bucket, user_id, message_id, latest, reason)
SELECT ?, * FROM unnest(?::smallint[], ?::text[], ?::text[], ?::bigint[], ?::text[])
"""
_START_OVER: Final = "UPDATE index_buckets SET checkpoint = 0 WHERE collection = ?"
_CHECKPOINT: Final = "SELECT checkpoint FROM index_buckets WHERE collection = ? ORDER BY bucket"
_LEAVE: Final = "DELETE FROM index_members WHERE collection = ? AND name = ?"
_LONG_GONE: Final = "DELETE FROM index_members WHERE collection = ? AND seen < now() - interval '1 day'"


class PostgresFillerLock:
    """The lock of one collection: its holder may fill the index, and says how far it is. Calls must not overlap.

    Raises (all but `lose` and `leave`): Fault STORAGE_UNAVAILABLE, the database cannot be reached; the lock is lost.

    `holder` in `index_buckets` outlives the lock: it names who filled and did not leave in good order. Servers of the
    version before, which held buckets until a time, find them held for ever.

    Args:
        database: where the log is.
        collection: its name on the engine's server.
        lease_s: how long the lock is kept for a server that says nothing, in seconds.
    """

    def __init__(self, database: Database, collection: str, lease_s: float) -> None:
        self.lease_s = lease_s
        self._database = database
        self._collection = collection
        self._name = os.urandom(_HOLDER_BYTES).hex()
        self._open: asyncpg.Connection[asyncpg.Record] | None = None

    async def take(self) -> bool:
        """Take the lock if nobody has it; return whether it was taken. Say that this server uses the index."""
        with faults("written"):
            if self._open is None:
                self._open = await self._database.connect()
                await self._open.fetchval(numbered(_END_IF_SILENT), str(int(self.lease_s * 1000)))
            await self._open.execute(numbered(_HERE), self._collection, self._name)
            return bool(await self._open.fetchval(numbered(_TAKE), self._collection))

    async def was_left(self) -> bool:
        """Return whether who had the lock before gave it up in good order. Else it may still be writing."""
        with faults("read"):
            return not await self._connection.fetchval(numbered(_WAS_KEPT), self._collection, self._name)

    async def renew(self) -> None:
        """Keep the lock, and say that this server uses the index."""
        with faults("written"):
            await self._connection.execute(numbered(_HERE), self._collection, self._name)

    async def begin(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        """Note that this server fills. Begin to follow this log, unless the index has followed it before.

        Args:
            log: its name (`LogIdentity.name`).
            seed: how far the index has followed it already, if it has; else it is emptied.
            empty: empties it.
        """
        with faults("written"):
            async with self._connection.transaction():
                if not await self._connection.fetchval(numbered(_KNOWN), self._collection, log):
                    await self._begin_anew(log, seed, empty)
                await self._connection.execute(numbered(_KEEP), self._name, self._collection)

    async def filled(self) -> IndexCheckpoint:
        """Return how far the index is."""
        with faults("read"):
            aside = await self._connection.fetch(numbered(_ASIDE), self._collection)
            return IndexCheckpoint(
                await checkpoint_of(self._connection, self._collection), [DeadLetter(*row) for row in aside]
            )

    async def publish(self, progress: IndexProgress) -> None:
        """Let all servers know how far the index is."""
        with faults("written"):
            async with self._connection.transaction():
                await self._name_messages(progress)
                reached = [progress.checkpoint.of(bucket) for bucket in range(BUCKETS)]
                await self._connection.execute(numbered(_PUBLISH), reached, self._collection)
                await self._connection.execute(numbered(_PASSED), self._collection)

    async def start_over(self) -> None:
        """Have it filled from the beginning."""
        with faults("written"):
            async with self._connection.transaction():
                await self._connection.execute(numbered(_START_OVER), self._collection)
                await self._connection.execute(numbered(_NOBODY_FURTHER), self._collection)

    async def queried(self, note: Callable[[str], None]) -> None:
        """Have `note` called with users whom any server is queried about and whose messages are not all there.

        That ends with the lock.
        """
        with faults("read"):
            await self._connection.add_listener(_QUERIED, lambda *told: self._heard(note, str(told[-1])))

    async def lose(self) -> None:
        """Let go of the lock, or of what is left of it, without a word of what became of the work."""
        if self._open is not None:
            self._open.terminate()
            self._open = None

    async def leave(self) -> None:
        """Give up the lock in good order: nothing is being written any more. The index is not used by this server."""
        if self._open is not None:
            with suppress(*ERRORS):
                await self._open.execute(numbered(_RELEASE), self._collection, self._name)
                await self._open.execute(numbered(_LEAVE), self._collection, self._name)
                await self._open.execute(numbered(_LONG_GONE), self._collection)
        await self.lose()

    @property
    def _connection(self) -> asyncpg.Connection[asyncpg.Record]:
        if self._open is None:
            raise RuntimeError("the lock was not taken")
        return self._open

    async def _begin_anew(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        if seed is None:
            await empty()
        for table in _OF_BUCKETS:
            statement = f"DELETE FROM {table} WHERE collection = ?"  # noqa: S608 - ours
            await self._connection.execute(numbered(statement), self._collection)
        first = seed or FeedPosition()
        reached = [first.of(bucket) for bucket in range(BUCKETS)]
        await self._connection.execute(numbered(_ALL_BUCKETS), self._collection, reached)
        await self._connection.execute(numbered(_BEGUN), self._collection, log)

    async def _name_messages(self, progress: IndexProgress) -> None:
        """Name what is set aside, and users who are further than their buckets."""
        if progress.dead_letters is not None:
            await self._connection.execute(numbered(_NO_LONGER_ASIDE), self._collection)
            if progress.dead_letters:
                columns = map(list, zip(*progress.dead_letters, strict=True))
                await self._connection.execute(numbered(_SET_ASIDE), self._collection, *columns)
        if progress.users:
            columns = map(list, zip(*progress.users, strict=True))
            await self._connection.execute(numbered(_USERS), self._collection, *columns)

    def _heard(self, note: Callable[[str], None], told: str) -> None:
        collection, _, user_id = told.partition("\n")
        if collection == self._collection:
            note(user_id)


async def checkpoint_of(connection: Connection, collection: str) -> FeedPosition:
    """Return up to where everything has been applied or set aside in a collection, whoever did it."""
    rows = await connection.fetch(numbered(_CHECKPOINT), collection)
    return FeedPosition(tuple(checkpoint for (checkpoint,) in rows)) if rows else FeedPosition()


_KNOWN_S: Final = 2.0
"""How long what was read of a bucket is believed: an index that is built anew goes back."""


_NAMED_MAX: Final = 100
_TELL_AGAIN_S: Final = 5.0
_REACHED: Final = """
SELECT b.checkpoint, coalesce(u.sequence, 0) FROM index_buckets AS b LEFT JOIN index_users AS u
  ON (u.collection, u.bucket) = (b.collection, b.bucket) AND u.user_id = ?
WHERE b.collection = ? AND b.bucket = ?
"""
_COUNT_ASIDE: Final = "SELECT count(*) FROM index_aside WHERE collection = ? AND {users}"
_NOBODY_FILLS: Final = f"SELECT pg_try_advisory_xact_lock({LOCK_KEY})"
_USED: Final = """
SELECT 1 FROM index_members WHERE collection = ? AND seen > now() - interval '15 minutes' LIMIT 1
"""
_ASIDE_IDS: Final = """
SELECT message_id FROM index_aside WHERE collection = ? AND bucket = ? AND user_id = ? ORDER BY message_id LIMIT ?
"""


class PostgresSharedIndex:
    """What every server knows of an index; implements `VectorProgress`. Belongs to one event loop.

    Raises (any method that is awaited): Fault STORAGE_UNAVAILABLE while the database cannot be reached.

    Args:
        database: where the log is.
        collection: its name on the engine's server.
        lease_s: how long the filler's lock is kept for a server that says nothing, in seconds.
    """

    def __init__(self, database: Database, collection: str, lease_s: float) -> None:
        self._database = database
        self._pool: Pool = database.pool()
        self._collection = collection
        self._lease_s = lease_s
        self._known: dict[int, tuple[float, int]] = {}
        self._told = HotUsers(_TELL_AGAIN_S)
        self._telling: set[asyncio.Task[None]] = set()

    def filler_lock(self) -> PostgresFillerLock:
        """Return the lock of the filler, which may be asked for again when it has been left."""
        return PostgresFillerLock(self._database, self._collection, self._lease_s)

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be in the index yet.

        What a bucket has reached is remembered, so that most calls ask nobody.
        """
        bucket = bucket_of(user_id)
        read_at, checkpoint = self._known.get(bucket, (0.0, 0))
        if sequence <= checkpoint and time.monotonic() - read_at < _KNOWN_S:
            return False
        is_behind = await self._reached(bucket, user_id) < sequence
        if is_behind and self._told.record(user_id):
            self._tell(user_id)
        return is_behind

    def look(self) -> None:
        """Do nothing: as with `note_query`."""

    def note_query(self, user_id: str) -> None:
        """Do nothing: who is behind is told to the filler when it is found out."""

    async def status(self, user_id: str | None = None, prefix: str = "") -> IndexerStatus:
        """Say how far the index has come, for one user or for all whose ids begin with a prefix."""
        checkpoint = await self.checkpoint()
        users = users_clause(user_id, prefix)
        ((aside,),) = await self._fetch(_COUNT_ASIDE.format(users=users.condition), self._collection, *users.values)
        if user_id is None:
            return IndexerStatus(checkpoint, checkpoint, 0, aside, ())
        bucket = bucket_of(user_id)
        reached = FeedPosition.at(await self._reached(bucket, user_id))
        ids = await self._fetch(_ASIDE_IDS, self._collection, bucket, user_id, _NAMED_MAX) if aside else []
        return IndexerStatus(reached, reached, 0, aside, tuple(message_id for (message_id,) in ids))

    async def checkpoint(self) -> FeedPosition:
        """Return up to where everything has been applied or set aside, whoever did it."""
        with faults("read"):
            async with self._pool.connection() as connection:
                return await checkpoint_of(connection, self._collection)

    async def abandoned(self) -> bool:
        """Forget the index if no server has used it for a while; return whether that is so."""
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                if not await connection.fetchval(numbered(_NOBODY_FILLS), self._collection):
                    return False
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
        """Have the filler hear that a user is being queried; nobody waits for it."""
        task = asyncio.get_running_loop().create_task(self._tell_them(user_id))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_them(self, user_id: str) -> None:
        try:
            async with self._pool.connection() as connection:
                await connection.execute("SELECT pg_notify($1, $2)", _QUERIED, f"{self._collection}\n{user_id}")
        except ERRORS:
            return  # the user's messages come in their turn

    async def _fetch(self, statement: str, *values: Value) -> list[Any]:
        with faults("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(numbered(statement), *values))


_ALL_CHECKPOINTS: Final = """
SELECT collection, array_agg(checkpoint ORDER BY bucket)
FROM index_collections JOIN index_buckets USING (collection) WHERE log = $1 GROUP BY collection
"""


async def filled_of(connection: Connection, log: str) -> dict[str, IndexCheckpoint]:
    """Return what is known of each index of a log (`LogIdentity.name`), by its name on the engine's server."""
    filled = {}
    for collection, checkpoints in await connection.fetch(_ALL_CHECKPOINTS, log):
        aside = [DeadLetter(*row) for row in await connection.fetch(numbered(_ASIDE), collection)]
        filled[collection] = IndexCheckpoint(FeedPosition(tuple(checkpoints)), aside)
    return filled
