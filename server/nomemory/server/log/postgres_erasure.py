"""Forgets what was removed, and has PostgreSQL clear the rows: implements `ErasableLog` over PostgreSQL.

What of a removed row is left in the free room of a page until another row takes that room, in the write-ahead log and
in whatever was copied from there, is the database's: nothing here can overwrite it.
"""

from __future__ import annotations

from typing import Any, Final

from nomemory.server.log.postgres_bucket import EACH, IN_ALL
from nomemory.server.log.postgres_conditions import numbered
from nomemory.server.log.postgres_connections import LONG_S, Database, faults
from nomemory.server.log.protocol import Removals

_REMOVALS: Final = f"""
SELECT max(sequence), count(*) FROM (
  SELECT sequence FROM removals WHERE {IN_ALL} AND sequence > (SELECT wiped FROM followers WHERE name = ?) LIMIT ?
) AS found
"""  # noqa: S608 - our text, bound values
_LATEST: Final = f"""
SELECT max(sequence) FROM {EACH} CROSS JOIN LATERAL (
  SELECT sequence FROM removals WHERE bucket = each.bucket ORDER BY sequence DESC LIMIT 1
) AS found
"""  # noqa: S608 - as above
_WIPED: Final = "UPDATE followers SET wiped = greatest(wiped, ?::bigint) WHERE name = ?"
_BY_ALL: Final = "SELECT least(?::bigint, min(wiped)) FROM followers"
_UNTIL: Final = f"""
SELECT max(sequence) FROM (
  SELECT sequence FROM removals WHERE {IN_ALL} AND sequence <= ? ORDER BY sequence LIMIT ?
) AS found
"""  # noqa: S608 - as above
_FORGET: Final = f"""
WITH forgotten AS (
  DELETE FROM removals WHERE {IN_ALL} AND sequence <= ? RETURNING bucket, user_id
), nobody AS (
  DELETE FROM users AS u USING (SELECT DISTINCT bucket, user_id FROM forgotten) AS f
  WHERE (u.bucket, u.user_id) = (f.bucket, f.user_id) AND u.messages = 0 AND u.latest_sequence <= ?
  RETURNING u.bucket, u.user_id
)
DELETE FROM requests AS r USING nobody AS n WHERE (r.bucket, r.user_id) = (n.bucket, n.user_id)
"""  # noqa: S608 - as above
_LOCK: Final = "SELECT 1 FROM buckets ORDER BY bucket FOR UPDATE"
_CLEAR: Final = "VACUUM (TRUNCATE false) messages, metadata_entries, embeddings, removals, requests, users"


class PostgresLogErasure:
    """Works beside the writer, in commits of its own.

    Args:
        database: where the log is.
        follower: the name of the server whose indexes it speaks for.
    """

    def __init__(self, database: Database, follower: str) -> None:
        self._pool = database.pool()
        self._follower = follower

    async def removals(self, many: int) -> Removals | None:
        """Return what removals there are that this server has not wiped out, and whether they are at least `many`."""
        ((until, found),) = await self._fetch(_REMOVALS, self._follower, many)
        if until is None:
            return None
        ((latest,),) = await self._fetch(_LATEST)
        return Removals(max(until, latest or 0), found >= many)

    async def forget(self, until: int, most: int) -> bool:
        """Note that this server has wiped out what was removed.

        Forget up to `most` removals that all servers have, and the users of whom nothing is left.
        """
        with faults("written"):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(_LOCK)
                await connection.execute(numbered(_WIPED), until, self._follower)
                by_all = await connection.fetchval(numbered(_BY_ALL), until)
                last = await connection.fetchval(numbered(_UNTIL), by_all, most)
                if last is None:
                    return False
                await connection.execute(numbered(_FORGET), last, by_all)
        return bool(last < by_all)

    async def give_back(self, most: int) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: PostgreSQL gives room back by itself."""
        return False

    async def wipe(self, after: int, most: int) -> int | None:  # noqa: ARG002 - as above
        """Have the rows of removed messages cleared, as far as the role may."""
        with faults("written"):
            async with self._pool.connection() as connection:
                await connection.execute("SET statement_timeout = 0")
                try:
                    await connection.execute(_CLEAR, timeout=LONG_S)
                finally:
                    await connection.execute("RESET statement_timeout")
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    async def _fetch(self, statement: str, *values: int | str) -> list[Any]:
        with faults("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(numbered(statement), *values))
