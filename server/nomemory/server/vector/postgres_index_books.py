"""The books of an index that several servers share, in the log's database: implements `BucketClaims`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.log.position import BUCKETS, FeedPosition
from nomemory.server.log.postgres.connections import ERRORS, Database, faults
from nomemory.server.log.postgres.rows import Value, numbered
from nomemory.server.vector.bucket_claims import Claim, Held, Progress, SetAside

if TYPE_CHECKING:
    import asyncpg

    from nomemory.server.log.postgres.connections import Connection, Pool

_HOLDER_BYTES: Final = 8
_QUERIED: Final = "nomemory_queried"
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('nomemory index ' || ?, 0))"
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
_HERE: Final = """
INSERT INTO index_members (collection, name) VALUES ($1, $2)
ON CONFLICT (collection, name) DO UPDATE SET seen = now()
"""
_RENEW: Final = f"""
WITH here AS ({_HERE}), renewed AS (
  UPDATE index_buckets SET until = now() + $3::float8 * interval '1 second' WHERE collection = $1 AND holder = $2
  RETURNING bucket, generation
)
SELECT (SELECT count(*) FROM index_members
  WHERE collection = $1 AND name <> $2 AND seen > now() - $3::float8 * interval '1 second'),
  array(SELECT bucket FROM renewed ORDER BY bucket), array(SELECT generation FROM renewed ORDER BY bucket)
"""  # noqa: S608 - our text, bound values
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
SELECT b.bucket FROM index_buckets AS b JOIN unnest(?::smallint[], ?::bigint[]) AS held(bucket, generation)
  USING (bucket, generation)
WHERE b.collection = ? AND b.holder = ? ORDER BY b.bucket FOR UPDATE OF b
"""
_USERS: Final = """
INSERT INTO index_users (collection, bucket, user_id, sequence)
SELECT ?, * FROM unnest(?::smallint[], ?::text[], ?::bigint[])
ON CONFLICT (collection, bucket, user_id) DO UPDATE SET sequence = greatest(index_users.sequence, excluded.sequence)
"""
_PASSED: Final = """
DELETE FROM index_users AS u USING index_buckets AS b
WHERE (b.collection, b.bucket) = (u.collection, u.bucket) AND u.sequence <= b.checkpoint
  AND u.collection = ? AND u.bucket = ANY(?)
"""
_FURTHER: Final = "SELECT EXISTS (SELECT 1 FROM index_users WHERE collection = ? AND bucket = ANY(?))"
_NOBODY_FURTHER: Final = "DELETE FROM index_users WHERE collection = ?"
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
_CHECKPOINTS: Final = "SELECT checkpoint FROM index_buckets WHERE collection = ? ORDER BY bucket"
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
        self._may_name_users = True

    async def begin(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        """Begin the books of this log, unless another server has."""
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(numbered(LOCK), self._collection)
                await connection.execute(_HERE, self._collection, self._holder)  # before anybody finds them abandoned
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
                if progress.aside is not None or progress.users:
                    await self._name(connection, await self._still_held(connection, generations), progress)
                numbers = [generations[bucket] for bucket in buckets]
                reached = [progress.checkpoint.of(bucket) for bucket in buckets]
                await connection.execute(numbered(_PUBLISH), buckets, numbers, reached, self._collection, self._holder)
                names_users = bool(progress.users) or self._may_name_users
                if names_users:
                    await connection.execute(numbered(_PASSED), self._collection, buckets)
                    names_users = await connection.fetchval(numbered(_FURTHER), self._collection, buckets)
        self._may_name_users = names_users

    async def release(self, buckets: Collection[int]) -> None:
        """Give buckets up at once."""
        await self._fetch(numbered(_RELEASE), self._collection, self._holder, list(buckets))
        await self._fetch(numbered(_PASSED), self._collection, list(range(BUCKETS)))

    async def start_over(self) -> None:
        """Have all buckets filled from the beginning. All claims end."""
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(numbered(_START_OVER), self._collection)
                await connection.execute(numbered(_NOBODY_FURTHER), self._collection)  # sees what the lock waited for

    async def checkpoints(self) -> FeedPosition:
        """Return up to where everything has been applied or set aside, whoever did it."""
        return await checkpoints_of(self._pool, self._collection)

    async def queried(self, note: Callable[[str], None]) -> None:
        """Have `note` called with each user that any server is queried about and whose messages are not all there."""
        if self._listening is not None and not self._listening.is_closed():
            return
        with faults("read"):
            connection = await self._database.connect()
            try:
                await connection.add_listener(_QUERIED, lambda *told: self._heard(note, str(told[-1])))
            except BaseException:
                connection.terminate()
                raise
            self._listening = connection

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

    async def _still_held(self, connection: Connection, generations: dict[int, int]) -> set[int]:
        """Return which buckets are held in that generation, and stay so until the transaction ends."""
        held = list(generations), list(generations.values())
        return {bucket for (bucket,) in await connection.fetch(numbered(_STILL), *held, self._collection, self._holder)}

    async def _name(self, connection: Connection, held: Collection[int], progress: Progress) -> None:
        """Name users who are further, and what is set aside, in buckets that are held."""
        if progress.aside is not None:
            await connection.execute(numbered(_NO_LONGER_ASIDE), self._collection, list(held))
            if aside := [one for one in progress.aside if one.bucket in held]:
                await connection.execute(numbered(_SET_ASIDE), self._collection, *map(list, zip(*aside, strict=True)))
        if users := [one for one in progress.users if one.bucket in held]:
            await connection.execute(numbered(_USERS), self._collection, *map(list, zip(*users, strict=True)))

    async def _fetch(self, statement: str, *values: Value | float) -> list[Any]:
        with faults("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(statement, *values))


async def checkpoints_of(pool: Pool, collection: str) -> FeedPosition:
    """Return up to where everything has been applied or set aside in a collection, whoever did it."""
    with faults("read"):
        async with pool.connection() as connection:
            rows = await connection.fetch(numbered(_CHECKPOINTS), collection)
    return FeedPosition(tuple(checkpoint for (checkpoint,) in rows)) if rows else FeedPosition()


def told_of(collection: str, user_id: str) -> tuple[str, str]:
    """Return the channel and the text that tell the servers that a user is being queried."""
    return _QUERIED, f"{collection}\n{user_id}"
