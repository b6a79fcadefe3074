"""The lock of the server that fills a shared index, and what it writes down: implements `FillerLock` in PostgreSQL.

The lock is an advisory one of a connection. The database ends a connection that says nothing for the time of the lock,
so that another server gets it also where the one before hangs, or is cut off. What is written down goes through the
same connection: who has lost the lock writes nothing down.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from nomemory.server.log.position import BUCKETS, FeedPosition
from nomemory.server.log.postgres.connections import ERRORS, Database, faults
from nomemory.server.log.postgres.rows import numbered
from nomemory.server.vector.shared.protocol import Filled, Progress, SetAside

if TYPE_CHECKING:
    import asyncpg

    from nomemory.server.log.postgres.connections import Connection

_HOLDER_BYTES: Final = 8
_QUERIED: Final = "nomemory_queried"
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
_FURTHER: Final = "SELECT EXISTS (SELECT 1 FROM index_users WHERE collection = ?)"
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
    """The lock of one collection, for one server. Belongs to one event loop.

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
        self._may_name_users = True

    async def take(self) -> bool:
        """Take the lock if nobody has it; return whether it was taken. Say that this server uses the index."""
        with faults("written"):
            if self._open is None:
                self._open = await self._database.connect()
                await self._open.fetchval(numbered(_END_IF_SILENT), str(int(self.lease_s * 1000)))
            await self._open.execute(numbered(_HERE), self._collection, self._name)
            return bool(await self._open.fetchval(numbered(_TAKE), self._collection))

    async def was_left(self) -> bool:
        """Return whether who had the lock before gave it up in good order."""
        with faults("read"):
            return not await self._connection.fetchval(numbered(_WAS_KEPT), self._collection, self._name)

    async def renew(self) -> None:
        """Keep the lock, and say that this server uses the index."""
        with faults("written"):
            await self._connection.execute(numbered(_HERE), self._collection, self._name)

    async def begin(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        """Note that this server fills. Begin to follow this log, unless the index has followed it before."""
        with faults("written"):
            async with self._connection.transaction():
                if not await self._connection.fetchval(numbered(_KNOWN), self._collection, log):
                    await self._begin_anew(log, seed, empty)
                await self._connection.execute(numbered(_KEEP), self._name, self._collection)

    async def filled(self) -> Filled:
        """Return how far the index is."""
        with faults("read"):
            aside = await self._connection.fetch(numbered(_ASIDE), self._collection)
            return Filled(await checkpoint_of(self._connection, self._collection), [SetAside(*row) for row in aside])

    async def publish(self, progress: Progress) -> None:
        """Let all servers know how far the index is."""
        with faults("written"):
            async with self._connection.transaction():
                await self._name_messages(progress)
                reached = [progress.checkpoint.of(bucket) for bucket in range(BUCKETS)]
                await self._connection.execute(numbered(_PUBLISH), reached, self._collection)
                names_users = bool(progress.users) or self._may_name_users
                if names_users:
                    await self._connection.execute(numbered(_PASSED), self._collection)
                    names_users = await self._connection.fetchval(numbered(_FURTHER), self._collection)
        self._may_name_users = names_users

    async def start_over(self) -> None:
        """Have it filled from the beginning."""
        with faults("written"):
            async with self._connection.transaction():
                await self._connection.execute(numbered(_START_OVER), self._collection)
                await self._connection.execute(numbered(_NOBODY_FURTHER), self._collection)

    async def queried(self, note: Callable[[str], None]) -> None:
        """Have `note` called with users whom any server is queried about and whose messages are not all there."""
        with faults("read"):
            await self._connection.add_listener(_QUERIED, lambda *told: self._heard(note, str(told[-1])))

    async def lose(self) -> None:
        """Let go of the lock, or of what is left of it."""
        if self._open is not None:
            self._open.terminate()
            self._open = None

    async def leave(self) -> None:
        """Give up the lock in good order."""
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

    async def _name_messages(self, progress: Progress) -> None:
        """Name what is set aside, and users who are further than their buckets."""
        if progress.aside is not None:
            await self._connection.execute(numbered(_NO_LONGER_ASIDE), self._collection)
            if progress.aside:
                columns = map(list, zip(*progress.aside, strict=True))
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


def told_of(collection: str, user_id: str) -> tuple[str, str]:
    """Return the channel and the text that tell the filler that a user is being queried."""
    return _QUERIED, f"{collection}\n{user_id}"
