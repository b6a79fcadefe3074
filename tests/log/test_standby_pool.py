"""Reads go to a standby that has what they need, and what one standby had says nothing of another in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from postgres import PrivatePostgres, fresh_schema

from nomemory.server.log.position import bucket_of
from nomemory.server.log.postgres.connections import ERRORS, Database
from nomemory.server.log.postgres.schema import bring_forward
from nomemory.server.log.postgres.standby import StandbyPool
from nomemory.server.log.protocol import READ_AFTER, ReadAfter

WHERE = "SELECT current_schema()"
END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'nomemory' AND pid <> pg_backend_pid() AND query LIKE 'SELECT current_schema%'"
)


class Copied:
    """A log, and a copy of it that is as far as a test says."""

    def __init__(self, primary: str, standby: str) -> None:
        self.primary, self.standby = Database(primary), Database(standby)
        self.pool = StandbyPool(self.primary.pool(), self.standby.pool())

    async def asked(self) -> str:
        """Return which database a read is answered by."""
        async with self.pool.connection() as connection:
            schema = str(await connection.fetchval(WHERE))
        return "standby" if schema in self.standby.url else "primary"

    async def has(self, sequence: int) -> None:
        connection = await self.standby.connect()
        await connection.execute("UPDATE buckets SET sequence = $1 WHERE bucket = $2", sequence, bucket_of("ann"))
        connection.terminate()


@pytest.fixture
async def copied(postgres: PrivatePostgres) -> AsyncIterator[Copied]:
    copied = Copied(fresh_schema(postgres), fresh_schema(postgres))
    for database in (copied.primary, copied.standby):
        await bring_forward(database)
    primary, standby = await copied.primary.connect(), await copied.standby.connect()
    await standby.execute("UPDATE log_state SET log_id = $1", await primary.fetchval("SELECT log_id FROM log_state"))
    primary.terminate()
    standby.terminate()
    READ_AFTER.set(ReadAfter("ann", 7))
    yield copied
    await copied.pool.close()


async def test_a_standby_in_the_place_of_one_that_was_further_is_asked_anew(copied: Copied) -> None:
    READ_AFTER.set(ReadAfter("ann", 7))
    await copied.has(7)
    assert await copied.asked() == "standby"
    await copied.has(3)
    assert await copied.asked() == "standby", "one that has it is not asked again"
    connection = await copied.primary.connect()
    await connection.execute(END)
    connection.terminate()
    await asyncio.sleep(0.3)  # until it is noticed here, so that the pool opens other connections without a word
    assert await until_answered(copied) == "primary"
    await copied.has(8)
    async with asyncio.timeout(20):
        while await copied.asked() != "standby":  # noqa: ASYNC110 - a state in the database
            await asyncio.sleep(0.01)


async def until_answered(copied: Copied) -> str:
    async with asyncio.timeout(20):
        while True:
            try:
                return await copied.asked()
            except ERRORS:  # of a connection that was ended
                await asyncio.sleep(0.01)
