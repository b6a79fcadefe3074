"""Forgets what was removed when the indexes of all servers have wiped it out, and has PostgreSQL clear the rows.

It implements `ErasableLog`. What is left of a removed row in the free space of a page until another row takes it, in
the write-ahead log and in whatever was copied from there, is the database's: nothing here can overwrite it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.faults import Fault
from nomemory.server.store.buckets import BUCKETS
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.postgres.connections import LONG_TIMEOUT_S, Database, faults
from nomemory.server.store.postgres.rows import numbered
from nomemory.server.store.results import Removals

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import Connection


_REMOVALS: Final = """
SELECT count(*) FROM followers, unnest(wiped) WITH ORDINALITY AS w(after, place)
CROSS JOIN LATERAL (
  SELECT 1 FROM removals WHERE bucket = w.place - 1 AND sequence > w.after LIMIT ?
) AS found WHERE name = ?
"""
_LATEST: Final = """
SELECT coalesce((SELECT max(sequence) FROM removals WHERE removals.bucket = buckets.bucket), 0)
FROM buckets ORDER BY bucket
"""
_WIPED: Final = "SELECT name, wiped FROM followers ORDER BY name FOR UPDATE"
_NOTE_WIPED: Final = "UPDATE followers SET wiped = ? WHERE name = ?"
_NEXT: Final = """
SELECT w.place - 1 FROM unnest(?::bigint[]) WITH ORDINALITY AS w(until, place)
WHERE EXISTS (SELECT 1 FROM removals WHERE bucket = w.place - 1 AND sequence <= w.until) ORDER BY 1 LIMIT 1
"""
_UNTIL: Final = """
SELECT max(sequence) FROM (
  SELECT sequence FROM removals WHERE bucket = ? AND sequence <= ? ORDER BY sequence LIMIT ?
) AS found
"""
_FORGET: Final = """
WITH forgotten AS (
  DELETE FROM removals WHERE bucket = ? AND sequence <= ? RETURNING bucket, user_id
), nobody AS (
  DELETE FROM users AS u USING (SELECT DISTINCT bucket, user_id FROM forgotten) AS f
  WHERE (u.bucket, u.user_id) = (f.bucket, f.user_id) AND u.messages = 0 AND u.latest_sequence <= ?
  RETURNING u.bucket, u.user_id
)
DELETE FROM requests AS r USING nobody AS n WHERE (r.bucket, r.user_id) = (n.bucket, n.user_id)
"""
_LOCK: Final = "SELECT 1 FROM buckets WHERE bucket = ? FOR UPDATE"
_SEEN: Final = "UPDATE followers SET seen = now() WHERE name = ?"
_GONE: Final = "DELETE FROM followers WHERE NOT is_lasting AND seen < now() - interval '1 day'"
_LEAVE: Final = "DELETE FROM followers WHERE name = ?"
_SEEN_S: Final = 600.0
_CLEAR: Final = "VACUUM (TRUNCATE false) messages, metadata_entries, embeddings, removals, requests, users"


class PostgresLogErasure:
    """Works beside the writer, in commits of its own.

    Args:
        database: where the log is.
        follower: the name of the server whose indexes it speaks for.
        is_lasting: whether that has indexes of its own, so that it has to come back before removals are forgotten.
    """

    def __init__(self, database: Database, follower: str, *, is_lasting: bool = True) -> None:
        self._pool = database.pool()
        self._follower = follower
        self._is_lasting = is_lasting
        self._seen_at = time.monotonic()

    async def pending_removals(self, many: int) -> Removals | None:
        """Return what removals there are that this server has not wiped out, and whether they are at least `many`."""
        if time.monotonic() - self._seen_at >= _SEEN_S:
            self._seen_at = time.monotonic()
            await self._fetch(_SEEN, self._follower)
        ((found,),) = await self._fetch(_REMOVALS, many, self._follower)
        if not found:
            return None
        latest = await self._fetch(_LATEST)
        return Removals(FeedPosition(tuple(sequence for (sequence,) in latest)), found >= many)

    async def forget_removals(self, until: FeedPosition, most: int) -> bool:
        """Note that this server has wiped out what was removed.

        Forget up to `most` removals that all servers have, of one bucket, and the users of whom nothing is left.
        """
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(_GONE)
                wiped = await self._note_wiped(connection, until)
                by_all = [wiped.of(bucket) for bucket in range(BUCKETS)]
                bucket = await connection.fetchval(numbered(_NEXT), by_all)
                if bucket is None:
                    return False
                await connection.execute(numbered(_LOCK), bucket)
                last = await connection.fetchval(numbered(_UNTIL), bucket, by_all[bucket], most)
                await connection.execute(numbered(_FORGET), bucket, last, by_all[bucket])
                return await connection.fetchval(numbered(_NEXT), by_all) is not None

    async def _note_wiped(self, connection: Connection, until: FeedPosition) -> FeedPosition:
        """Note how far this server has wiped; return how far all have, at most up to there."""
        by_all = until
        for name, wiped in await connection.fetch(_WIPED):
            position = FeedPosition(tuple(wiped))
            if name == self._follower:
                position = position.merged(until)
                await connection.execute(numbered(_NOTE_WIPED), list(position.sequences), name)
            by_all = by_all.common(position)
        return by_all

    async def release_free_pages(self, most: int) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: PostgreSQL reuses free space by itself."""
        return False

    async def wipe_pages(self, after: int, most: int) -> int | None:  # noqa: ARG002 - as above
        """Have the rows of removed messages cleared, as far as the role may."""
        with faults("written"):
            async with self._pool.connection() as connection:
                await connection.execute("SET statement_timeout = 0")
                try:
                    await connection.execute(_CLEAR, timeout=LONG_TIMEOUT_S)
                finally:
                    await connection.execute("RESET statement_timeout")
        return None

    async def close(self) -> None:
        """Close the connections. Nobody waits for a server without indexes of its own any more."""
        if not self._is_lasting:
            with suppress(Fault):
                await self._fetch(_LEAVE, self._follower)
        await self._pool.close()

    async def _fetch(self, statement: str, *values: int | str) -> list[Any]:
        with faults("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(numbered(statement), *values))
