"""Guarantees of a PostgreSQL log beyond the contract: several writers and few round trips."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest
from postgres import PrivatePostgres, execute_statement, fresh_schema, private_postgres, statements_of

from nomemory.server import wire
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.store.commit import CommitPlan
from nomemory.server.store.postgres.connections import Database, translate_errors
from nomemory.server.store.postgres.reader import PostgresLogReader
from nomemory.server.store.postgres.schema import upgrade_schema
from nomemory.server.store.postgres.transaction import PostgresTransaction
from nomemory.server.store.postgres.writer import PostgresLogWriter
from nomemory.server.store.results import MessagePosition, OnConflict, WriteOutcome
from nomemory.server.store.write_queue import AnyPlannedJob


def new_message(message_id: str, ts_us: int = 0) -> Message:
    return Message("u", message_id, ts_us, Role.USER, message_id)


def _writer(database: Database) -> PostgresLogWriter:
    return PostgresLogWriter(
        database, queue_max=1000, queue_max_bytes=10**9, extract_tokens=build_token_columns, announce=lambda: None
    )


@asynccontextmanager
async def _writers(url: str, count: int) -> AsyncIterator[tuple[list[PostgresLogWriter], PostgresLogReader]]:
    """Open several writers and a reader of one log."""
    database = Database(url)
    await upgrade_schema(database)
    async with AsyncExitStack() as stack:
        writers = [_writer(database) for _ in range(count)]
        reader = PostgresLogReader(database)
        for writer in writers:
            stack.push_async_callback(writer.close)
        stack.push_async_callback(reader.close)
        yield writers, reader


async def _everything(reader: PostgresLogReader, user_id: str = "u") -> list[Message]:
    page = await reader.read_encoded_page(
        user_id, EVERYTHING, after=None, pinned=2**62, limit=10_000, oldest_first=True
    )
    return list(map(wire.decode, page))


async def test_generated_ids_of_two_writers_increase_in_call_order(postgres_url: str) -> None:
    async with _writers(postgres_url, 2) as (writers, reader):
        for turn in range(20):
            await writers[turn % 2].write(
                [new_message(f"{turn}")._replace(message_id="")], on_conflict=OnConflict.REFUSE
            )
        assert [message.content for message in await _everything(reader)] == [f"{turn}" for turn in range(20)]


async def test_a_request_sent_to_several_writers_is_stored_once(postgres_url: str) -> None:
    async with _writers(postgres_url, 3) as (writers, reader):
        nameless = [new_message(f"{n}")._replace(message_id="") for n in range(3)]
        calls = [
            writer.write(nameless, on_conflict=OnConflict.REFUSE, request_id="r")
            for writer in writers
            for _ in range(4)
        ]
        written = await asyncio.gather(*calls)
        assert len({receipt.message_ids for receipt in written}) == 1
        assert sum(receipt.outcomes == (WriteOutcome.CREATED,) * 3 for receipt in written) == 1
        assert len(await _everything(reader)) == 3


async def test_concurrent_writers_of_one_id_conflict(postgres_url: str) -> None:
    async with _writers(postgres_url, 2) as (writers, _):
        calls = [
            writer.write([new_message("m")._replace(content=f"{n}")], on_conflict=OnConflict.REFUSE)
            for n, writer in enumerate(writers)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, Fault)]
        assert [fault.reason for fault in refused] == [Reason.ERROR_REASON_MESSAGE_CONFLICT]


async def test_a_pinned_listing_is_stable_during_writes(postgres_url: str) -> None:
    async with _writers(postgres_url, 2) as (writers, reader):
        for n in range(30):
            await writers[0].write([new_message(f"{n:02}", n)], on_conflict=OnConflict.REFUSE)
        first = await reader.read_first_encoded_page("u", EVERYTHING, limit=10)
        messages = list(map(wire.decode, first.messages))
        while messages[-1].ts_us > 0:
            at = int(messages[-1].ts_us)
            newer = new_message(f"{at:02}-later", max(at - 3, 0))
            replaced = new_message(f"{at - 1:02}", at - 1)._replace(content="replaced")
            await writers[1].write([newer, replaced], on_conflict=OnConflict.REPLACE)
            after = MessagePosition(messages[-1].ts_us, messages[-1].message_id)
            page = await reader.read_encoded_page("u", EVERYTHING, after=after, pinned=first.pinned, limit=10)
            if not page:
                break
            messages += map(wire.decode, page)
        contents = [message.message_id for message in messages]
        assert all(newer > older for newer, older in pairwise(contents))
        assert all(message.content != "replaced" and "later" not in message.message_id for message in messages)
        assert len(contents) >= 27  # versions replaced meanwhile are not listed


async def test_reads_take_one_round_trip(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = statements_of(monkeypatch)
    async with _writers(postgres_url, 1) as ((writer,), reader):
        await writer.write([new_message(f"{n}", n) for n in range(5)], on_conflict=OnConflict.REFUSE)
        anchors = await reader.read_page("u", EVERYTHING, before=None, pinned=9, limit=5)
        reads: list[Callable[[], Awaitable[object]]] = [
            lambda: reader.read_first_encoded_page("u", Filter(since_us=1), limit=3),
            lambda: reader.read_encoded_page("u", EVERYTHING, after=MessagePosition(3, "3"), pinned=9, limit=3),
            lambda: reader.read_encoded_neighbors("u", "2", 2, 2),
            lambda: reader.read_messages("u", ["1", "2", "no"]),
            lambda: reader.read_neighbors(anchors, 1, 1),
            lambda: reader.list_conversations("u", pinned=9),
            lambda: reader.count_users_and_messages("u"),
        ]
        for read in reads:
            await read()  # a connection prepares a statement on its first use
            queries.clear()
            assert await read() is not None
            assert len(queries) == 1


async def test_a_write_takes_at_most_six_round_trips(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The COPY of the messages is not counted."""
    queries = statements_of(monkeypatch)
    async with _writers(postgres_url, 1) as ((writer,), _):
        for execution in range(2):  # a connection prepares a statement on its first use
            for message_id, max_round_trips in ((f"m{execution}", 5), ("", 4)):
                queries.clear()
                await writer.write([new_message(message_id)], on_conflict=OnConflict.REFUSE)
                assert len(queries) == max_round_trips or not execution


async def test_concurrent_callers_share_commits(postgres_url: str) -> None:
    async with _writers(postgres_url, 1) as ((writer,), reader):
        calls = [writer.write([new_message(f"{n:03}")], on_conflict=OnConflict.REFUSE) for n in range(128)]
        commits = 0

        def count() -> None:
            nonlocal commits
            commits += 1

        writer._committers[0]._announce = count
        await asyncio.gather(*calls)
        assert commits <= 4
        assert len(await _everything(reader)) == 128


async def test_a_failing_job_does_not_fail_others(postgres_url: str) -> None:
    async with _writers(postgres_url, 1) as ((writer,), reader):
        too_long = "".join(chr(0x4E00 + n % 20_000) for n in range(0, 70_000, 7))  # for a row of an index
        sent = [new_message("a"), new_message("b")._replace(conversation_id=too_long), new_message("c")]
        calls = [writer.write([message], on_conflict=OnConflict.REFUSE) for message in sent]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(answer, Fault) for answer in answers] == [False, True, False]
        assert [message.message_id for message in await _everything(reader)] == ["a", "c"]


async def test_an_unexpected_error_fails_all_waiting_callers(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _writers(postgres_url, 1) as ((writer,), reader):
        with monkeypatch.context() as broken:
            broken.setattr(CommitPlan, "plan_write", lambda *_arguments: 1 / 0)
            calls = (
                writer.write([new_message("a")], on_conflict=OnConflict.REFUSE),
                writer.delete_matching("u", EVERYTHING),
            )
            answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [ZeroDivisionError, ZeroDivisionError]
        await writer.write([new_message("b")], on_conflict=OnConflict.REFUSE)
        assert [message.message_id for message in await _everything(reader)] == ["b"]


async def test_the_writer_reconnects_to_a_restarted_database() -> None:
    with private_postgres() as server:
        async with _writers(fresh_schema(server), 1) as ((writer,), reader):
            await writer.write([new_message("before")], on_conflict=OnConflict.REFUSE)
            server.stop()
            for call in (writer.write([new_message("away")], on_conflict=OnConflict.REFUSE), reader.read_sequence()):
                with pytest.raises(Fault) as away:
                    await call
                assert away.value.reason == Reason.ERROR_REASON_STORAGE_UNAVAILABLE
                assert away.value.retry_after_s
            server.start()
            await writer.write([new_message("after")], on_conflict=OnConflict.REFUSE)
            assert {message.message_id for message in await _everything(reader)} >= {"before", "after"}


@pytest.mark.parametrize("turns", range(6))
async def test_a_closed_connection_is_reported_as_a_fault(postgres: PrivatePostgres, turns: int) -> None:
    connection = await Database(postgres.url).connect()
    execute_statement(postgres, f"SELECT pg_terminate_backend({connection.get_server_pid()}, 5000)")
    for _ in range(turns):  # the connection notices its end over several iterations of the loop
        await asyncio.sleep(0)
    with pytest.raises(Fault) as refused, translate_errors("read"):
        await connection.fetch("SELECT 1")
    assert refused.value.reason is Reason.ERROR_REASON_STORAGE_UNAVAILABLE


async def test_a_hanging_database_times_out() -> None:
    with private_postgres() as server:
        database = Database(fresh_schema(server), connect_timeout_s=2.0, statement_timeout_s=0.5)
        await upgrade_schema(database)
        writer, reader = _writer(database), PostgresLogReader(database)
        await writer.write([new_message("before")], on_conflict=OnConflict.REFUSE)
        await reader.read_sequence()
        with server.pause():
            async with asyncio.timeout(30):
                for call in (
                    writer.write([new_message("hung")], on_conflict=OnConflict.REFUSE),
                    reader.read_sequence(),
                ):
                    with pytest.raises(Fault):
                        await call
        await writer.write([new_message("after")], on_conflict=OnConflict.REFUSE)
        assert {message.message_id for message in await _everything(reader)} >= {"before", "after"}
        await writer.close()
        await reader.close()


async def test_jobs_queued_during_an_unexpected_error_are_committed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, taken, may_go_on = PostgresTransaction.plan_jobs, asyncio.Event(), asyncio.Event()

    async def plan(transaction: PostgresTransaction, jobs: Sequence[AnyPlannedJob]) -> None:
        if taken.is_set():
            await original(transaction, jobs)
            return
        taken.set()
        await may_go_on.wait()
        raise ZeroDivisionError

    monkeypatch.setattr(PostgresTransaction, "plan_jobs", plan)
    async with _writers(postgres_url, 1) as ([writer], reader):
        first = asyncio.create_task(writer.write([new_message("first")], on_conflict=OnConflict.REFUSE))
        await taken.wait()
        second = asyncio.create_task(writer.write([new_message("second")], on_conflict=OnConflict.REFUSE))
        await asyncio.sleep(0)
        may_go_on.set()
        with pytest.raises(ZeroDivisionError):
            await first
        async with asyncio.timeout(20):
            await second
        assert [message.message_id for message in await _everything(reader)] == ["second"]
