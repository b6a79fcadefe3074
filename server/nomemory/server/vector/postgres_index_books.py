"""The books of an index that several servers share, in the log's database: implements `BucketClaims`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.log.bucket import BUCKETS
from nomemory.server.log.feed_position import FeedPosition
from nomemory.server.log.postgres_conditions import Value, numbered
from nomemory.server.log.postgres_connections import ERRORS, Database, faults
from nomemory.server.vector.bucket_claims import Claim, Held, Progress, SetAside

if TYPE_CHECKING:
    import asyncpg

    from nomemory.server.log.postgres_connections import Connection

_HOLDER_BYTES: Final = 8
_QUERIED: Final = "nomemory_queried"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('nomemory index ' || ?, 0))"
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
_RENEW: Final = """
WITH here AS (
  INSERT INTO index_members (collection, name) VALUES ($1, $2)
  ON CONFLICT (collection, name) DO UPDATE SET seen = now()
), renewed AS (
  UPDATE index_buckets SET until = now() + $3::float8 * interval '1 second' WHERE collection = $1 AND holder = $2
  RETURNING bucket, generation
)
SELECT (SELECT count(*) FROM index_members
  WHERE collection = $1 AND name <> $2 AND seen > now() - $3::float8 * interval '1 second'),
  array(SELECT bucket FROM renewed ORDER BY bucket), array(SELECT generation FROM renewed ORDER BY bucket)
"""
_CLAIM: Final = """
UPDATE index_buckets AS b SET holder = $2, until = now() + $3::float8 * interval '1 second', generation = generation + 1
FROM (
  SELECT bucket, holder <> '' AS was_held FROM index_buckets
  WHERE collection = $1 AND until < now() ORDER BY bucket LIMIT $4 FOR UPDATE SKIP LOCKED
) AS free WHERE b.collection = $1 AND b.bucket = free.bucket
RETURNING b.bucket, b.generation, b.checkpoint, free.was_held
"""
_ASIDE: Final = """
SELECT bucket, user_id, message_id, latest, reason FROM index_aside WHERE collection = ? AND bucket = ANY(?)
"""
_PUBLISH: Final = """
UPDATE index_buckets AS b SET checkpoint = now.checkpoint
FROM unnest(?::smallint[], ?::bigint[], ?::bigint[]) AS now(bucket, generation, checkpoint)
WHERE b.collection = ? AND b.bucket = now.bucket AND b.generation = now.generation AND b.holder = ?
  AND b.checkpoint < now.checkpoint
"""
_STILL: Final = """
SELECT bucket FROM index_buckets WHERE collection = ? AND holder = ? AND bucket = ANY(?) FOR UPDATE
"""
_USERS: Final = """
INSERT INTO index_users (collection, bucket, user_id, sequence)
SELECT ?, * FROM unnest(?::smallint[], ?::text[], ?::bigint[])
ON CONFLICT (collection, bucket, user_id) DO UPDATE SET sequence = greatest(index_users.sequence, excluded.sequence)
"""
_PASSED: Final = """
DELETE FROM index_users AS u USING index_buckets AS b
WHERE (b.collection, b.bucket) = (u.collection, u.bucket) AND u.collection = ? AND u.sequence <= b.checkpoint
"""
_NO_LONGER_ASIDE: Final = "DELETE FROM index_aside WHERE collection = ? AND bucket = ANY(?)"
_SET_ASIDE: Final = """
INSERT INTO index_aside (collection, bucket, user_id, message_id, latest, reason)
SELECT ?, * FROM unnest(?::smallint[], ?::text[], ?::text[], ?::bigint[], ?::text[])
"""
_RELEASE: Final = """
UPDATE index_buckets SET holder = '', until = '-infinity' WHERE collection = ? AND holder = ? AND bucket = ANY(?)
"""
_START_OVER: Final = """
UPDATE index_buckets SET checkpoint = 0, generation = generation + 1, holder = '', until = '-infinity'
WHERE collection = ?
"""
CHECKPOINTS: Final = "SELECT checkpoint FROM index_buckets WHERE collection = ? ORDER BY bucket"
_LEAVE: Final = "DELETE FROM index_members WHERE collection = ? AND name = ?"
_LONG_GONE: Final = "DELETE FROM index_members WHERE collection = ? AND seen < now() - interval '1 day'"


class PostgresIndexBooks:
    """Keeps the books of one collection, for one server. Belongs to one event loop.

    Args:
        database: where the log is.
        collection: its name on the engine's server.
        lease_s: how long a claim lasts without being renewed, in seconds.
    """

    def __init__(self, database: Database, collection: str, lease_s: float) -> None:
        self.lease_s = lease_s
        self._database = database
        self._pool = database.pool()
        self._collection = collection
        self._holder = os.urandom(_HOLDER_BYTES).hex()
        self._listening: asyncpg.Connection[asyncpg.Record] | None = None

    async def begin(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        """Begin the books of this log, unless another server has."""
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(numbered(_LOCK), self._collection)
                if await connection.fetchval(numbered(_KNOWN), self._collection, log):
                    return
                if seed is None:
                    await empty()
                for table in _OF_BUCKETS:
                    statement = f"DELETE FROM {table} WHERE collection = ?"  # noqa: S608 - ours
                    await connection.execute(numbered(statement), self._collection)
                first = seed or FeedPosition()
                await connection.execute(
                    numbered(_ALL_BUCKETS), self._collection, [first.of(bucket) for bucket in range(BUCKETS)]
                )
                await connection.execute(numbered(_BEGUN), self._collection, log)

    async def renew(self) -> Held:
        """Renew all claims, and say that this server is there."""
        ((others, buckets, generations),) = await self._fetch(_RENEW, self._collection, self._holder, self.lease_s)
        return Held(dict(zip(buckets, generations, strict=True)), -(-BUCKETS // (others + 1)))

    async def claim(self, most: int) -> list[Claim]:
        """Take up to so many buckets that nobody holds."""
        rows = await self._fetch(_CLAIM, self._collection, self._holder, self.lease_s, most)
        return [Claim(*row) for row in rows]

    async def aside(self, buckets: Collection[int]) -> list[SetAside]:
        """Return what is set aside in some buckets."""
        return [SetAside(*row) for row in await self._fetch(numbered(_ASIDE), self._collection, list(buckets))]

    async def publish(self, generations: dict[int, int], progress: Progress) -> None:
        """Note how far the buckets are that are still held in that generation."""
        buckets = sorted(generations)
        if not buckets:
            return
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                if progress.aside is not None:
                    await self._put_aside(connection, buckets, progress.aside)
                if progress.users:
                    columns = map(list, zip(*progress.users, strict=True))
                    await connection.execute(numbered(_USERS), self._collection, *columns)
                numbers = [generations[bucket] for bucket in buckets]
                reached = [progress.checkpoint.of(bucket) for bucket in buckets]
                await connection.execute(numbered(_PUBLISH), buckets, numbers, reached, self._collection, self._holder)

    async def release(self, buckets: Collection[int]) -> None:
        """Give buckets up at once."""
        await self._fetch(numbered(_RELEASE), self._collection, self._holder, list(buckets))
        await self._fetch(numbered(_PASSED), self._collection)

    async def start_over(self) -> None:
        """Have all buckets filled from the beginning. All claims end."""
        await self._fetch(numbered(_START_OVER), self._collection)

    async def checkpoints(self) -> FeedPosition:
        """Return up to where everything has been applied or set aside, whoever did it."""
        rows = await self._fetch(numbered(CHECKPOINTS), self._collection)
        return FeedPosition(tuple(checkpoint for (checkpoint,) in rows)) if rows else FeedPosition()

    async def queried(self, note: Callable[[str], None]) -> None:
        """Have `note` called with each user that any server is queried about and whose messages are not all there."""
        if self._listening is not None and not self._listening.is_closed():
            return
        with faults("read"):
            self._listening = await self._database.connect()
            await self._listening.add_listener(_QUERIED, lambda *told: self._heard(note, str(told[-1])))

    async def leave(self) -> None:
        """Give up everything, and be no longer there."""
        with suppress(*ERRORS):
            async with self._pool.connection() as connection:
                await connection.execute(numbered(_RELEASE), self._collection, self._holder, list(range(BUCKETS)))
                await connection.execute(numbered(_LEAVE), self._collection, self._holder)
                await connection.execute(numbered(_LONG_GONE), self._collection)
        if self._listening is not None:
            self._listening.terminate()
        await self._pool.close()

    def _heard(self, note: Callable[[str], None], told: str) -> None:
        collection, _, user_id = told.partition("\n")
        if collection == self._collection:
            note(user_id)

    async def _put_aside(self, connection: Connection, buckets: list[int], aside: Collection[SetAside]) -> None:
        rows = await connection.fetch(numbered(_STILL), self._collection, self._holder, buckets)
        ours = [bucket for (bucket,) in rows]
        await connection.execute(numbered(_NO_LONGER_ASIDE), self._collection, ours)
        if mine := [one for one in aside if one.bucket in ours]:
            await connection.execute(numbered(_SET_ASIDE), self._collection, *map(list, zip(*mine, strict=True)))

    async def _fetch(self, statement: str, *values: Value | float) -> list[Any]:
        with faults("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(statement, *values))


def told_of(collection: str, user_id: str) -> tuple[str, str]:
    """Return the channel and the text that tell the servers that a user is being queried."""
    return _QUERIED, f"{collection}\n{user_id}"
