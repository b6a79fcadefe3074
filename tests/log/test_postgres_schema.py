"""The PostgreSQL schema is created once, upgraded with its messages, or rejected."""

from __future__ import annotations

import asyncio
import os

import asyncpg
import pytest
from postgres import PrivatePostgres, execute_statement

from nomemory.server import wire
from nomemory.server.message import Message, Role
from nomemory.server.message_ids import encode_message_id
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.store.buckets import BUCKETS, compute_bucket
from nomemory.server.store.checksums import compute_checksum
from nomemory.server.store.errors import LogUnusableError, LogVersionError
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.feed import PostgresChangeFeed
from nomemory.server.store.postgres.reader import PostgresLogReader
from nomemory.server.store.postgres.schema import MIGRATIONS, SCHEMA_VERSION, VERSIONS_TABLE, upgrade_schema
from nomemory.server.store.postgres.writer import PostgresLogWriter
from nomemory.server.store.results import OnConflict


async def _versions(url: str) -> list[int]:
    connection = await Database(url).connect()
    try:
        return [
            row["version"] for row in await connection.fetch("SELECT version FROM schema_versions ORDER BY version")
        ]
    finally:
        await connection.close()


async def test_concurrent_startups_create_one_schema(postgres_url: str) -> None:
    await asyncio.gather(*(upgrade_schema(Database(postgres_url)) for _ in range(4)))
    await upgrade_schema(Database(postgres_url))
    assert await _versions(postgres_url) == list(range(1, SCHEMA_VERSION + 1))


async def test_a_newer_schema_is_rejected(postgres_url: str) -> None:
    await upgrade_schema(Database(postgres_url))
    connection = await Database(postgres_url).connect()
    await connection.execute("INSERT INTO schema_versions (version) VALUES ($1)", SCHEMA_VERSION + 1)
    await connection.close()
    with pytest.raises(LogVersionError):
        await upgrade_schema(Database(postgres_url))


async def test_a_database_with_another_encoding_is_rejected(postgres: PrivatePostgres) -> None:
    name = f"latin_{os.getpid()}"
    execute_statement(postgres, f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(LogUnusableError, match="LATIN1"):
        await upgrade_schema(Database(postgres.url.replace("/postgres?", f"/{name}?")))


async def test_a_database_without_durable_commits_is_rejected(postgres_url: str) -> None:
    with pytest.raises(LogUnusableError, match="synchronous_commit is off"):
        await upgrade_schema(Database(f"{postgres_url}&synchronous_commit=off"))


async def test_the_error_of_an_unavailable_database_hides_the_password() -> None:
    url = "postgresql://nomemory:a-secret@127.0.0.1:1/none"
    with pytest.raises(LogUnusableError) as refused:
        await upgrade_schema(Database(url))
    assert "a-secret" not in str(refused.value)


@pytest.mark.parametrize(("oldest_served", "is_served"), [(SCHEMA_VERSION, True), (SCHEMA_VERSION + 1, False)])
async def test_a_newer_compatible_schema_is_accepted(postgres_url: str, oldest_served: int, *, is_served: bool) -> None:
    database = Database(postgres_url)
    await upgrade_schema(database)
    connection = await database.connect()
    await connection.execute(
        "INSERT INTO schema_versions (version, oldest_served) VALUES ($1, $2)", SCHEMA_VERSION + 1, oldest_served
    )
    connection.terminate()
    if is_served:
        await upgrade_schema(database)
        return
    with pytest.raises(LogVersionError):
        await upgrade_schema(database)


LAST_ID = 2**127
_LAST_OF_ONE_SEQUENCE = 2
"""The last schema with the sequence in `log_state`."""
MESSAGE = """
INSERT INTO messages (bucket, user_id, ts_us, message_id, sequence, checksum, role, conversation_id, wire)
VALUES ($1, $2, $3, $4, $5, $6, 1, '', $7)
"""


async def _wiped(database: Database) -> list[int]:
    connection = await database.connect()
    wiped: list[int] = await connection.fetchval("SELECT wiped FROM followers")
    connection.terminate()
    return wiped


async def _step(connection: asyncpg.Connection[asyncpg.Record], step: int) -> None:
    await connection.execute(MIGRATIONS[step - 1])
    await connection.execute("INSERT INTO schema_versions (version) VALUES ($1)", step)


async def _fill(database: Database, version: int) -> None:
    """Create a log of a schema version with two messages and one removal."""
    connection = await database.connect()
    await connection.execute(VERSIONS_TABLE)
    for step in range(1, min(version, _LAST_OF_ONE_SEQUENCE) + 1):
        await _step(connection, step)
    for sequence, user in ((1, "u"), (3, "v")):
        encoded = wire.encode(Message(user, "m", 0, Role.USER, f"of {user}"))
        row = (compute_bucket(user), user, 0, "m", sequence, compute_checksum(user, sequence, encoded), encoded)
        await connection.execute(MESSAGE, *row)
        await connection.execute("INSERT INTO users VALUES ($1, $2, $3, 1)", compute_bucket(user), user, sequence + 1)
    await connection.execute("INSERT INTO removals VALUES ($1, 4, 'v', 'gone', 2)", compute_bucket("v"))
    await connection.execute("UPDATE log_state SET sequence = 4, last_id = $1", LAST_ID.to_bytes(16, "big"))
    await connection.execute("INSERT INTO followers (name, wiped) VALUES ('one', 3)")
    for step in range(_LAST_OF_ONE_SEQUENCE + 1, version + 1):
        await _step(connection, step)
    await connection.close()


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
async def test_an_upgrade_keeps_messages_sequences_and_ids(postgres_url: str, version: int) -> None:
    database = Database(postgres_url)
    await _fill(database, version)
    await upgrade_schema(database)
    assert await _wiped(database) == [3] * BUCKETS
    reader, feed = PostgresLogReader(database), PostgresChangeFeed(database)
    writer = PostgresLogWriter(
        database, queue_max=9, queue_max_bytes=10**9, extract_tokens=build_token_columns, announce=lambda: None
    )
    for user in "uv":
        assert wire.decode((await reader.read_messages(user, ["m"]))["m"].wire).content == f"of {user}"
    assert [change.sequence for change in feed.read_changes(0, 9)] == [1, 3, 4]
    assert feed.read_position().sequence == 4
    for user in "uvw":
        written = await writer.write([Message(user, "", 1, Role.USER, "later")], on_conflict=OnConflict.REFUSE)
        assert written.sequence > 4
        assert written.message_ids[0] > encode_message_id(LAST_ID)
    for close in (reader.close, writer.close):
        await close()
    feed.close()


async def test_an_upgraded_follower_has_followed_every_bucket(postgres_url: str) -> None:
    await _fill(Database(postgres_url), 2)
    await upgrade_schema(Database(postgres_url))
    connection = await Database(postgres_url).connect()
    buckets = await connection.fetch("SELECT bucket, sequence FROM buckets ORDER BY bucket")
    assert list(map(tuple, buckets)) == [(bucket, 4) for bucket in range(BUCKETS)]
    await connection.close()


async def test_the_first_sequence_of_an_upgraded_empty_log_is_one(postgres_url: str) -> None:
    database = Database(postgres_url)
    await upgrade_schema(database)
    writer = PostgresLogWriter(
        database, queue_max=9, queue_max_bytes=10**9, extract_tokens=build_token_columns, announce=lambda: None
    )
    assert (await writer.write([Message("u", "", 1, Role.USER, "x")], on_conflict=OnConflict.REFUSE)).sequence == 1
    await writer.close()
