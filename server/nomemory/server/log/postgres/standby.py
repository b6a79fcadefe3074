"""Reads from a standby of the log's database, where the caller's write token says what the read has to know."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from nomemory.server.log.position import bucket_of
from nomemory.server.log.postgres.connections import ERRORS, Pool
from nomemory.server.log.protocol import READ_AFTER, ReadAfter
from nomemory.server.structured_logs import get_logger

if TYPE_CHECKING:
    from nomemory.server.log.postgres.connections import Connection

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
    sequence has all of that bucket's users up to it. What was found out holds until another connection is opened:
    that may lead to a standby in the place of the one that was asked, which need not be as far.

    Args:
        primary: connections to the database that takes writes.
        standby: connections to a copy of it that follows.
    """

    def __init__(self, primary: Pool, standby: Pool) -> None:
        self._primary = primary
        self._standby = standby
        self._log_name = ""
        self._reached: dict[int, int] = {}
        self._opened = 0
        self._looked_at: dict[int, float] = {}
        self._away_until = 0.0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection.

        Raises:
            one of ERRORS.
        """
        wanted = READ_AFTER.get()
        if wanted is not None and await self._has(wanted):
            try:
                async with self._standby.connection() as connection:
                    if self._is_known_to_have(wanted):
                        yield connection
                        return
            except ERRORS:
                self._away_until = time.monotonic() + _AWAY_S
                raise
        async with self._primary.connection() as connection:
            yield connection

    async def close(self) -> None:
        """Close all connections."""
        await self._standby.close()
        await self._primary.close()

    async def _has(self, wanted: ReadAfter) -> bool:
        bucket, now = bucket_of(wanted.user_id), time.monotonic()
        if now < self._away_until:
            return False
        if self._is_known_to_have(wanted):
            return True
        if now - self._looked_at.get(bucket, 0.0) < _LOOK_S:
            return False
        self._looked_at[bucket] = now
        try:
            await self._look(bucket)
        except ERRORS:
            self._away_until = time.monotonic() + _AWAY_S
            return False
        return self._is_known_to_have(wanted)

    def _is_known_to_have(self, wanted: ReadAfter) -> bool:
        self._forget_others()
        return self._reached.get(bucket_of(wanted.user_id), -1) >= wanted.sequence

    def _forget_others(self) -> None:
        """Forget what was found out before the latest connection was opened."""
        if self._opened != self._standby.opened:
            self._opened = self._standby.opened
            self._reached.clear()

    async def _look(self, bucket: int) -> None:
        """Ask the standby how far it is, unless it is one of another log."""
        if not self._log_name:
            async with self._primary.connection() as connection:
                self._log_name = await connection.fetchval(_NAME)
        async with self._standby.connection() as connection:
            opened = self._standby.opened
            found = await connection.fetchrow(_REACHED, bucket)
        if found is not None and found[1] == self._log_name:
            self._forget_others()
            if opened == self._opened:
                self._reached[bucket] = int(found[0])
            return
        _log.error("NOMEMORY_POSTGRES_STANDBY is no standby of this log: nothing is read there")
        self._away_until = time.monotonic() + 60 * _AWAY_S
