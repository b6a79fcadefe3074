"""The schema of the log in PostgreSQL: made once, brought forward, and refused where it cannot hold the log."""

from __future__ import annotations

import asyncio
import os

import pytest
from postgres import PrivatePostgres, execute

from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.migration import bring_forward
from nomemory.server.log.postgres.schema import SCHEMA_VERSION
from nomemory.server.log.protocol import LogUnusableError, LogVersionError


async def _versions(url: str) -> list[int]:
    connection = await Database(url).connect()
    try:
        return [
            row["version"] for row in await connection.fetch("SELECT version FROM schema_versions ORDER BY version")
        ]
    finally:
        await connection.close()


async def test_several_servers_that_start_at_once_make_one_schema(postgres_url: str) -> None:
    await asyncio.gather(*(bring_forward(Database(postgres_url)) for _ in range(4)))
    await bring_forward(Database(postgres_url))
    assert await _versions(postgres_url) == list(range(1, SCHEMA_VERSION + 1))


async def test_a_schema_of_a_later_server_is_refused(postgres_url: str) -> None:
    await bring_forward(Database(postgres_url))
    connection = await Database(postgres_url).connect()
    await connection.execute("INSERT INTO schema_versions (version) VALUES ($1)", SCHEMA_VERSION + 1)
    await connection.close()
    with pytest.raises(LogVersionError):
        await bring_forward(Database(postgres_url))


async def test_a_database_of_another_encoding_is_refused(postgres: PrivatePostgres) -> None:
    name = f"latin_{os.getpid()}"
    execute(postgres, f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(LogUnusableError, match="LATIN1"):
        await bring_forward(Database(postgres.url.replace("/postgres?", f"/{name}?")))


async def test_a_database_whose_commits_are_not_durable_is_refused(postgres_url: str) -> None:
    with pytest.raises(LogUnusableError, match="synchronous_commit is off"):
        await bring_forward(Database(f"{postgres_url}&synchronous_commit=off"))


async def test_a_database_that_is_away_is_refused_without_its_password() -> None:
    url = "postgresql://nomemory:a-secret@127.0.0.1:1/none"
    with pytest.raises(LogUnusableError) as refused:
        await bring_forward(Database(url))
    assert "a-secret" not in str(refused.value)


@pytest.mark.parametrize(("oldest_served", "is_served"), [(SCHEMA_VERSION, True), (SCHEMA_VERSION + 1, False)])
async def test_a_later_schema_is_gone_on_with_if_it_says_so(
    postgres_url: str, oldest_served: int, *, is_served: bool
) -> None:
    database = Database(postgres_url)
    await bring_forward(database)
    connection = await database.connect()
    await connection.execute(
        "INSERT INTO schema_versions (version, oldest_served) VALUES ($1, $2)", SCHEMA_VERSION + 1, oldest_served
    )
    connection.terminate()
    if is_served:
        await bring_forward(database)
        return
    with pytest.raises(LogVersionError):
        await bring_forward(database)
