"""Concurrent writers of a PostgreSQL log: ordered within a bucket, independent across buckets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Final

import asyncpg
import pytest

from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Message, Role
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.store.buckets import BUCKETS, compute_bucket
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.schema import upgrade_schema
from nomemory.server.store.postgres.writer import PostgresLogWriter
from nomemory.server.store.results import OnConflict, WriteReceipt

LOCK: Final = "SELECT sequence FROM buckets WHERE bucket = $1 FOR UPDATE"
CONFLICT_TWICE: Final = """
CREATE SEQUENCE tries;
CREATE FUNCTION turn_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'another one first' USING ERRCODE = '{sqlstate}'; END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER turn_back AFTER INSERT ON messages FOR EACH STATEMENT EXECUTE FUNCTION turn_back();
"""


def user_of(bucket: int) -> str:
    """Return a user id in a bucket."""
    return next(user for user in map("u{}".format, count()) if compute_bucket(user) == bucket)


def new_messages(*users: str, message_id: str = "") -> list[Message]:
    return [Message(user, message_id, 0, Role.USER, "hello") for user in users]


async def write(writer: PostgresLogWriter, messages: Sequence[Message]) -> WriteReceipt:
    return await writer.write(messages, on_conflict=OnConflict.REPLACE)


@pytest.fixture
async def database(postgres_url: str) -> Database:
    database = Database(postgres_url)
    await upgrade_schema(database)
    return database


@asynccontextmanager
async def opened(database: Database, writers: int, connections: int = 4) -> AsyncIterator[list[PostgresLogWriter]]:
    """Open several writers, like those of several servers."""
    async with AsyncExitStack() as stack:
        made = [
            PostgresLogWriter(
                database,
                queue_max=1000,
                queue_max_bytes=10**9,
                extract_tokens=build_token_columns,
                announce=lambda: None,
                connections=connections,
            )
            for _ in range(writers)
        ]
        for writer in made:
            stack.push_async_callback(writer.close)
        yield made


@asynccontextmanager
async def locked(database: Database, bucket: int) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Hold the lock of a bucket, as a writing server does."""
    connection = await database.connect()
    await connection.execute("BEGIN")
    await connection.execute(LOCK, bucket)
    yield connection
    connection.terminate()


async def waiting_for_locks(database: Database) -> int:
    """Return the number of connections that wait for a lock."""
    connection = await database.connect()
    waiting = await connection.fetchval(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_locks WHERE"
        " relation = 'buckets'::regclass)"
    )
    await connection.close()
    return int(waiting)


async def until_one_writer_waits(database: Database) -> None:
    async with asyncio.timeout(20):
        while not await waiting_for_locks(database):  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.01)


async def test_a_write_waits_only_for_writes_to_its_bucket(database: Database) -> None:
    async with opened(database, 2) as (first, other), locked(database, 1):
        async with asyncio.timeout(20):
            await write(first, new_messages(user_of(2)))
            waits = asyncio.create_task(write(first, new_messages(user_of(1))))
            await until_one_writer_waits(database)
            await write(first, new_messages(user_of(2)))
            await write(other, new_messages(user_of(2)))
        assert not waits.done()
        waits.cancel()


async def test_writes_of_a_user_are_committed_in_order(database: Database) -> None:
    async with opened(database, 1) as (writer,):
        calls = [write(writer, new_messages(f"u{n % 5}")) for n in range(100)]
        ids = [written.message_ids[0] for written in await asyncio.gather(*calls)]
    for user in range(5):
        assert ids[user::5] == sorted(ids[user::5])


@pytest.mark.parametrize("sqlstate", ["40P01", "40001"])
async def test_a_conflicting_transaction_is_retried(database: Database, sqlstate: str) -> None:
    connection = await database.connect()
    await connection.execute(CONFLICT_TWICE.format(sqlstate=sqlstate))
    async with opened(database, 1) as (writer,):
        await asyncio.gather(*(write(writer, new_messages("a", message_id=f"{n}")) for n in range(3)))
    assert await connection.fetchval("SELECT last_value FROM tries") > 2
    assert await connection.fetchval("SELECT count(*) FROM messages") == 3
    await connection.close()


async def test_a_permanently_conflicting_transaction_fails(database: Database) -> None:
    connection = await database.connect()
    await connection.execute(CONFLICT_TWICE.format(sqlstate="40001").replace("<= 2", "> 0"))
    async with opened(database, 1) as (writer,):
        with pytest.raises(Fault) as refused:
            await write(writer, new_messages("a"))
    assert refused.value.reason == Reason.ERROR_REASON_STORAGE_UNAVAILABLE
    assert await connection.fetchval("SELECT count(*) FROM messages") == 0
    await connection.close()


async def test_queue_limits_apply_to_all_connections_together(database: Database) -> None:
    writer = PostgresLogWriter(
        database,
        queue_max=4,
        queue_max_bytes=10**9,
        extract_tokens=build_token_columns,
        announce=lambda: None,
        connections=4,
    )
    calls = [asyncio.create_task(write(writer, new_messages(user_of(bucket)))) for bucket in (0, 1, 2, 3, 4)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [WriteReceipt] * 4 + [Fault]
    assert writer.queued_job_count == 0
    await writer.close()


async def test_the_lock_of_a_dead_server_is_released(database: Database) -> None:
    async with opened(database, 1) as (writer,):
        async with locked(database, 1) as dying:
            await dying.execute("UPDATE buckets SET sequence = 1000 WHERE bucket = 1")
            waits = asyncio.create_task(write(writer, new_messages(user_of(1))))
            await until_one_writer_waits(database)
            assert not waits.done()
        assert 0 < (await waits).sequence < 1000


async def test_the_first_lock_holder_gets_the_smaller_sequences(database: Database) -> None:
    """Sequence numbers are drawn under the lock, so an earlier holder gets smaller ones."""
    async with opened(database, 1) as (writer,):
        async with locked(database, 1) as before:
            waits = asyncio.create_task(write(writer, new_messages(user_of(1))))
            await until_one_writer_waits(database)
            drawn = await before.fetchval("SELECT max(nextval('log_sequence')) FROM generate_series(1, 100)")
            await before.execute("COMMIT")
        assert (await waits).sequence > drawn


async def test_batches_with_buckets_in_opposite_order_do_not_deadlock(
    database: Database,
) -> None:
    users = [user_of(bucket) for bucket in range(BUCKETS)]
    async with opened(database, 3) as writers, asyncio.timeout(60):
        batches = [
            new_messages(*users[n : n + 8]) if n % 2 else new_messages(*users[n : n + 8][::-1])
            for n in range(BUCKETS - 8)
        ]
        await asyncio.gather(*(write(writers[n % 3], batch) for n, batch in enumerate(batches)))
        connection = await database.connect()
        assert await connection.fetchval("SELECT count(*) FROM messages") == 8 * (BUCKETS - 8)
        await connection.close()


async def test_a_follower_of_a_bucket_skips_no_change_during_concurrent_writes(database: Database) -> None:
    """Sequences of a bucket become visible in order, so a follower never misses a smaller one."""
    users = ["a", "b", "c", "d", "e"]
    buckets = sorted(set(map(compute_bucket, users)))

    async def keep_writing(writer: PostgresLogWriter, number: int) -> None:
        for n in range(15):
            some = [users[(number + n) % 5], users[(number * 2 + n) % 5]]
            await write(writer, new_messages(*some[: 1 + n % 2], message_id=f"{number % 7}-{n}"))

    async def follow(written: asyncio.Event) -> set[int]:
        seen, last = set[int](), dict.fromkeys(buckets, 0)
        connection = await database.connect()
        is_last = False
        while not is_last:
            is_last = written.is_set()
            for bucket in buckets:
                rows = await connection.fetch(
                    "SELECT sequence FROM messages WHERE bucket = $1 AND sequence > $2"
                    " UNION ALL SELECT sequence FROM removals WHERE bucket = $1 AND sequence > $2",
                    bucket,
                    last[bucket],
                )
                seen |= {row["sequence"] for row in rows}
                last[bucket] = max([last[bucket], *(row["sequence"] for row in rows)])
        await connection.close()
        return seen

    written = asyncio.Event()
    async with opened(database, 2) as writers:
        following = asyncio.create_task(follow(written))
        await asyncio.gather(*(keep_writing(writers[number % 2], number) for number in range(20)))
        written.set()
        seen = await following
    connection = await database.connect()
    left = await connection.fetch("SELECT sequence FROM messages UNION ALL SELECT sequence FROM removals")
    assert {row["sequence"] for row in left} <= seen
    assert len({row["sequence"] for row in left}) == len(left)
    await connection.close()


async def test_a_copy_without_sequence_state_does_not_reuse_numbers(database: Database) -> None:
    """Writes fail while servers run, and the next startup repairs the sequence."""
    async with opened(database, 1) as (writer,):
        latest = (await write(writer, new_messages("a", "a", "a"))).sequence
        connection = await database.connect()
        await connection.execute("SELECT setval('log_sequence', 1, false)")
        for call in (write(writer, new_messages("a")), writer.erase("a")):
            with pytest.raises(Fault) as refused:
                await call
            assert refused.value.reason == Reason.ERROR_REASON_STORAGE_UNAVAILABLE
        await upgrade_schema(database)
        assert (await write(writer, new_messages("a"))).sequence > latest
        await connection.close()


async def test_a_bucket_stores_its_latest_sequence(database: Database) -> None:
    """The latest sequence of a bucket covers every change and receipt."""
    async with opened(database, 1) as (writer,):
        await write(writer, new_messages("a", "b", "c", message_id="m"))
        await write(writer, new_messages("a", "b", message_id="n"))
        deleted = await writer.delete("b", ["m"])
        connection = await database.connect()
        rows = await connection.fetch("SELECT bucket, sequence FROM buckets WHERE sequence > 0")
        latest = {row["bucket"]: row["sequence"] for row in rows}
        assert set(latest) == set(map(compute_bucket, "abc"))
        assert latest[compute_bucket("b")] == deleted.sequence
        for row in await connection.fetch("SELECT bucket, latest_sequence FROM users"):
            assert latest[row["bucket"]] == row["latest_sequence"]
        missing = await writer.delete("c", ["none"])
        assert missing.sequence == latest[compute_bucket("c")]
        await connection.close()


async def test_generated_ids_of_a_user_increase_across_servers(database: Database) -> None:
    async with opened(database, 2) as writers:
        ids = list[str]()
        for turn in range(20):
            users = ["a", "b"] if turn % 3 else ["b", "a"]
            written = await write(writers[turn % 2], new_messages(*users[: 1 + turn % 2], "a"))
            ids += [
                name
                for name, user in zip(written.message_ids, [*users[: 1 + turn % 2], "a"], strict=True)
                if user == "a"
            ]
        assert ids == sorted(set(ids))
