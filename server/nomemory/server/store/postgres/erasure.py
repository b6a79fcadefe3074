"""Delete removal records that the indexes of all servers have applied, and vacuum the tables.

NoMemory cannot overwrite deleted rows in the free space or the write-ahead log of PostgreSQL, or in copies of the
database.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.faults import Fault
from nomemory.server.store.buckets import BUCKETS
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.postgres.connections import LONG_TIMEOUT_S, Database, translate_errors
from nomemory.server.store.postgres.rows import number_placeholders
from nomemory.server.store.results import PendingRemovals

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
_SELECT_WIPED: Final = "SELECT name, wiped FROM followers ORDER BY name FOR UPDATE"
_SET_WIPED: Final = "UPDATE followers SET wiped = ? WHERE name = ?"
_NEXT_BUCKET: Final = """
SELECT w.place - 1 FROM unnest(?::bigint[]) WITH ORDINALITY AS w(until, place)
WHERE EXISTS (SELECT 1 FROM removals WHERE bucket = w.place - 1 AND sequence <= w.until) ORDER BY 1 LIMIT 1
"""
_LAST_OF_BATCH: Final = """
SELECT max(sequence) FROM (
  SELECT sequence FROM removals WHERE bucket = ? AND sequence <= ? ORDER BY sequence LIMIT ?
) AS found
"""
_DELETE_REMOVALS: Final = """
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
_SET_SEEN: Final = "UPDATE followers SET seen = now() WHERE name = ?"
_DELETE_INACTIVE: Final = "DELETE FROM followers WHERE NOT is_lasting AND seen < now() - interval '1 day'"
_DELETE_FOLLOWER: Final = "DELETE FROM followers WHERE name = ?"
_SEEN_INTERVAL_S: Final = 600.0
_VACUUM: Final = "VACUUM (TRUNCATE false) messages, metadata_entries, embeddings, removals, requests, users"


class PostgresLogErasure:
    """Erases deleted messages from a PostgreSQL message log (`ErasableLog`).

    Args:
        follower: the name of this server in the table `followers`.
        is_lasting: whether this server has local indexes. A server without local indexes is deleted from the table
            `followers` when it stops, or after a day without activity.
    """

    def __init__(self, database: Database, follower: str, *, is_lasting: bool = True) -> None:
        self._pool = database.create_pool()
        self._follower = follower
        self._is_lasting = is_lasting
        self._seen_at = time.monotonic()

    async def read_pending_removals(self, minimum: int) -> PendingRemovals | None:
        """Return the position of the last removal, and whether this server has to erase at least `minimum` removals.

        Return None if this server has erased all removals.
        """
        if time.monotonic() - self._seen_at >= _SEEN_INTERVAL_S:
            self._seen_at = time.monotonic()
            await self._fetch_rows(_SET_SEEN, self._follower)
        ((pending,),) = await self._fetch_rows(_REMOVALS, minimum, self._follower)
        if not pending:
            return None
        latest = await self._fetch_rows(_LATEST)
        return PendingRemovals(FeedPosition(tuple(sequence for (sequence,) in latest)), pending >= minimum)

    async def delete_removals(self, until: FeedPosition, limit: int) -> bool:
        """Record that this server has erased the removed messages up to a position.

        The method also deletes users without messages, and up to `limit` removal records of one bucket whose messages
        all servers have erased.
        """
        with translate_errors("written"):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(_DELETE_INACTIVE)
                common = await self._record_erased_position(connection, until)
                erased_by_all = [common.get_sequence(bucket) for bucket in range(BUCKETS)]
                bucket = await connection.fetchval(number_placeholders(_NEXT_BUCKET), erased_by_all)
                if bucket is None:
                    return False
                await connection.execute(number_placeholders(_LOCK), bucket)
                last = await connection.fetchval(
                    number_placeholders(_LAST_OF_BATCH), bucket, erased_by_all[bucket], limit
                )
                await connection.execute(number_placeholders(_DELETE_REMOVALS), bucket, last, erased_by_all[bucket])
                return await connection.fetchval(number_placeholders(_NEXT_BUCKET), erased_by_all) is not None

    async def _record_erased_position(self, connection: Connection, until: FeedPosition) -> FeedPosition:
        """Record up to which position this server has erased messages; return the minimum position of all servers."""
        erased_by_all = until
        for name, wiped in await connection.fetch(_SELECT_WIPED):
            position = FeedPosition(tuple(wiped))
            if name == self._follower:
                position = position.maximum(until)
                await connection.execute(number_placeholders(_SET_WIPED), list(position.sequences), name)
            erased_by_all = erased_by_all.minimum(position)
        return erased_by_all

    async def release_free_pages(self, limit: int) -> bool:  # noqa: ARG002 - the protocol's signature
        """Return False without releasing pages, because PostgreSQL reuses free space itself."""
        return False

    async def overwrite_unused_bytes(self, after: int, limit: int) -> int | None:  # noqa: ARG002 - as above
        """Vacuum the tables of the message log, and return None.

        The arguments are ignored. PostgreSQL skips tables that the database role may not vacuum.
        """
        with translate_errors("written"):
            async with self._pool.connection() as connection:
                await connection.execute("SET statement_timeout = 0")
                try:
                    await connection.execute(_VACUUM, timeout=LONG_TIMEOUT_S)
                finally:
                    await connection.execute("RESET statement_timeout")
        return None

    async def close(self) -> None:
        """Close the connections; a server without local indexes is also removed from the table `followers`."""
        if not self._is_lasting:
            with suppress(Fault):
                await self._fetch_rows(_DELETE_FOLLOWER, self._follower)
        await self._pool.close()

    async def _fetch_rows(self, statement: str, *values: int | str) -> list[Any]:
        with translate_errors("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(number_placeholders(statement), *values))
