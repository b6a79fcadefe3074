"""The write queue and the generation of message ids."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log.engine import Engine, Log
from log.test_message_log import new_message

from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Message, Role
from nomemory.server.message_ids import IdAllocator, encode_message_id
from nomemory.server.store.errors import LogUnusableError
from nomemory.server.store.results import OnConflict, WriteOutcome, WriteReceipt
from nomemory.server.store.sqlite.writer import SqliteLogWriter
from nomemory.server.store.write_queue import WriteQueue


def is_refused(queue: WriteQueue[str], job: str, size: int) -> bool:
    try:
        queue.put(job, size)
    except Fault as fault:
        return fault.reason == Reason.ERROR_REASON_OVERLOADED
    return False


def test_jobs_are_taken_in_order() -> None:
    queue = WriteQueue[str](10, 100)
    for job in "abc":
        queue.put(job, 1)
    assert (queue.take(2), queue.take(2), queue.take(2)) == (["a", "b"], ["c"], [])


def test_an_oversized_job_is_queued_alone() -> None:
    queue = WriteQueue[str](10, 100)
    assert not is_refused(queue, "large", 1_000)
    assert is_refused(queue, "small", 1)
    queue.take(1)
    assert not is_refused(queue, "small", 1)
    assert is_refused(queue, "large", 1_000)


@given(st.lists(st.none() | st.integers(0, 120), max_size=60))
def test_the_queue_enforces_its_limits(steps: list[int | None]) -> None:
    queue = WriteQueue[int](5, 100)
    waiting: list[int] = []
    for size in steps:
        if size is None:
            assert queue.take(2) == waiting[:2]
            waiting = waiting[2:]
            continue
        fits = len(waiting) < 5 and (not waiting or sum(waiting) + size <= 100)
        try:
            queue.put(size, size)
            assert fits
            waiting.append(size)
        except Fault:
            assert not fits


@pytest.mark.parametrize(
    "message",
    [
        Message("u", "a", 1, Role.USER, "很长" * 100),
        Message("u", "a", 1, Role.USER, "x", metadata={"k": "v" * 600}),
        Message("u", "a", 1, Role.USER, "x", embedding=bytes(600)),
    ],
)
async def test_writes_beyond_the_queue_size_are_rejected(tmp_path: Path, message: Message) -> None:
    writer = SqliteLogWriter(tmp_path / "log.db", queue_max=100, queue_max_bytes=1_000, announce=lambda: None)
    with closing(writer), closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writes = asyncio.gather(
            *(writer.write([message], on_conflict=OnConflict.REFUSE) for _ in range(3)), return_exceptions=True
        )
        await asyncio.sleep(0)
        other.execute("COMMIT")
        receipts = await writes
    faults = [receipt for receipt in receipts if isinstance(receipt, Fault)]
    assert {fault.reason for fault in faults} == {Reason.ERROR_REASON_OVERLOADED}
    assert any(isinstance(receipt, WriteReceipt) for receipt in receipts)


@pytest.mark.parametrize("content", [b"no database at all" * 500, b"SQLite format 3\0" + bytes(5_000)])
def test_a_file_that_is_not_a_log_is_rejected_with_advice(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.db").write_bytes(content)
    with pytest.raises(LogUnusableError, match=r"log\.db cannot be opened: .* backup"):
        SqliteLogWriter(tmp_path / "log.db", queue_max=1, queue_max_bytes=1, announce=lambda: None)
    assert (tmp_path / "log.db").read_bytes() == content


MILLISECOND = 1_000_000


@given(times=st.lists(st.tuples(st.integers(0, 2**41 * MILLISECOND), st.integers(1, 2000)), min_size=1))
def test_generated_ids_increase_despite_clock_changes(times: list[tuple[int, int]]) -> None:
    now = 0
    numbers = IdAllocator(0, lambda: now)
    given_out: list[int] = []
    for now, count in times:  # noqa: B007 - the clock reads it
        first = numbers.allocate(count)
        given_out += [first, first + count - 1] if count > 1 else [first]
    assert given_out == sorted(set(given_out))
    assert list(map(encode_message_id, given_out)) == sorted(map(encode_message_id, given_out))


def test_two_logs_generate_different_ids() -> None:
    assert IdAllocator(0, lambda: MILLISECOND).allocate(1) != IdAllocator(0, lambda: MILLISECOND).allocate(1)


@given(batches=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["", "fresh"]), st.booleans()), max_size=6))
@settings(max_examples=15)
async def test_messages_with_equal_times_keep_their_order(
    engine: Engine, tmp_path: Path, batches: list[tuple[int, str, bool]]
) -> None:
    log, contents = await engine(tmp_path), list[str]()
    await log.erase("u")  # the messages of the previous example
    for number, (size, request, reopens) in enumerate(batches):
        some = [f"{number}-{n}" for n in range(size)]
        await log.write_nameless(*map(new_message, some), request_id=request and f"r{number}")
        contents += some
        if reopens:
            await log.close()
            log = await engine(tmp_path)
    read = [message.content for message in reversed(await log.everything())]
    await log.close()
    assert read == contents


async def test_a_repeated_request_gets_the_same_ids(engine: Engine, tmp_path: Path) -> None:
    first = await engine(tmp_path)
    batch = [new_message("x"), new_message("y", user="v"), new_message("x")]
    written = await first.write_nameless(*batch, request_id="r")
    await first.write_nameless(new_message("between"))
    await first.close()
    second = await engine(tmp_path)
    again = await second.write_nameless(*batch, request_id="r")
    assert again.message_ids == written.message_ids
    assert set(again.outcomes) == {WriteOutcome.UNCHANGED}
    await second.close()


async def test_users_do_not_share_requests(log: Log) -> None:
    first = await log.write_nameless(new_message("x"), request_id="r")
    second = await log.write_nameless(new_message("x", user="v"), request_id="r")
    assert second.outcomes == (WriteOutcome.CREATED,)
    assert first.message_ids != second.message_ids


@pytest.mark.parametrize(
    "others", [[new_message("y")], [new_message("x"), new_message("x")]], ids=["other content", "another size"]
)
async def test_a_request_id_with_another_batch_is_rejected(log: Log, others: list[Message]) -> None:
    await log.write_nameless(new_message("x"), request_id="r")
    with pytest.raises(Fault) as refused:
        await log.write_nameless(*others, request_id="r")
    assert refused.value.reason == Reason.ERROR_REASON_MESSAGE_CONFLICT
    assert len(await log.everything()) == 1


async def test_a_rejected_request_is_not_stored(log: Log) -> None:
    await log.write(new_message("there"))
    batch = [new_message("x", message_id=""), new_message("else")]
    for _ in range(2):
        with pytest.raises(Fault):
            await log.writer.write(batch, on_conflict=OnConflict.REFUSE, request_id="r")
    assert (await log.write_nameless(new_message("x"), request_id="r")).outcomes == (WriteOutcome.CREATED,)


async def test_a_repeated_request_restores_deleted_messages_with_their_ids(log: Log) -> None:
    written = await log.write_nameless(new_message("x"), request_id="r")
    await log.writer.delete("u", written.message_ids)
    again = await log.write_nameless(new_message("x"), request_id="r")
    assert (again.message_ids, again.outcomes) == (written.message_ids, (WriteOutcome.CREATED,))


async def test_messages_with_ids_keep_them(log: Log) -> None:
    written = await log.writer.write(
        [new_message("x"), new_message("y", message_id=""), new_message("z", message_id="c")],
        on_conflict=OnConflict.REFUSE,
        request_id="r",
    )
    assert (written.message_ids[0], written.message_ids[2]) == ("a", "c")
    assert written.message_ids[1].startswith("m_")
