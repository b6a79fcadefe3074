"""Reads from a standby of the log's database, where the caller's write token says what the read has to know."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from nomemory.server.log.bucket import bucket_of
from nomemory.server.log.postgres_connections import ERRORS, Pool
from nomemory.server.log.read_after import READ_AFTER, ReadAfter
from nomemory.server.structured_logs import get_logger

if TYPE_CHECKING:
    from nomemory.server.log.postgres_connections import Connection

_log = get_logger("log")
_LOOK_S: Final = 0.02
"""A standby that lacks a write is not asked about the same bucket again before this."""
_AWAY_S: Final = 1.0
"""One that does not answer is left alone for so long."""
_NAME: Final = "SELECT log_id || epoch FROM log_state"
_REACHED: Final = "SELECT sequence, log_id || epoch FROM buckets, log_state WHERE bucket = $1"


class StandbyPool:
    """Lends connections as `Pool` does: to the standby where that will do, else to the primary.

    Within a bucket changes become visible in the order of their sequences, there, too. So a standby that has a bucket's
    sequence has all of that bucket's users up to it.

    Args:
        primary: connections to the database that takes writes.
        standby: connections to a copy of it that follows.
    """

    def __init__(self, primary: Pool, standby: Pool) -> None:
        self._primary = primary
        self._standby = standby
        self._log_name = ""
        self._reached: dict[int, int] = {}
        self._looked_at: dict[int, float] = {}
        self._away_until = 0.0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection.

        Raises:
            one of ERRORS.
        """
        wanted = READ_AFTER.get()
        if wanted is None or not await self._has(wanted):
            async with self._primary.connection() as connection:
                yield connection
            return
        try:
            async with self._standby.connection() as connection:
                yield connection
        except ERRORS:
            self._away_until = time.monotonic() + _AWAY_S
            raise

    async def close(self) -> None:
        """Close all connections."""
        await self._standby.close()
        await self._primary.close()

    async def _has(self, wanted: ReadAfter) -> bool:
        bucket, now = bucket_of(wanted.user_id), time.monotonic()
        if now < self._away_until:
            return False
        if self._reached.get(bucket, -1) >= wanted.sequence:
            return True
        if now - self._looked_at.get(bucket, 0.0) < _LOOK_S:
            return False
        self._looked_at[bucket] = now
        try:
            self._reached[bucket] = await self._look(bucket)
        except ERRORS:
            self._away_until = time.monotonic() + _AWAY_S
            return False
        return self._reached[bucket] >= wanted.sequence

    async def _look(self, bucket: int) -> int:
        """Ask the standby how far it is; -1 if it is one of another log."""
        if not self._log_name:
            async with self._primary.connection() as connection:
                self._log_name = await connection.fetchval(_NAME)
        async with self._standby.connection() as connection:
            found = await connection.fetchrow(_REACHED, bucket)
        if found is not None and found[1] == self._log_name:
            return int(found[0])
        _log.error("NOMEMORY_POSTGRES_STANDBY is no standby of this log: nothing is read there")
        self._away_until = time.monotonic() + 60 * _AWAY_S
        return -1
