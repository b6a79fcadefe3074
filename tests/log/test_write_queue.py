"""What waits for the log's writer is bounded, in number and in bytes."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.faults import Fault, Reason
from nomemory.server.log.protocol import LogUnusableError, OnConflict, Written
from nomemory.server.log.sqlite.writer import SqliteLogWriter
from nomemory.server.log.writing import WriteQueue
from nomemory.server.message import Message, Role


def is_refused(queue: WriteQueue[str], job: str, size: int) -> bool:
    try:
        queue.put(job, size)
    except Fault as fault:
        return fault.reason == Reason.ERROR_REASON_OVERLOADED
    return False


def test_jobs_come_out_in_the_order_in_which_they_were_put() -> None:
    queue = WriteQueue[str](10, 100)
    for job in "abc":
        queue.put(job, 1)
    assert (queue.take(2), queue.take(2), queue.take(2)) == (["a", "b"], ["c"], [])


def test_a_job_that_is_larger_than_the_bound_waits_alone() -> None:
    queue = WriteQueue[str](10, 100)
    assert not is_refused(queue, "large", 1_000)
    assert is_refused(queue, "small", 1)
    queue.take(1)
    assert not is_refused(queue, "small", 1)
    assert is_refused(queue, "large", 1_000)


@given(st.lists(st.none() | st.integers(0, 120), max_size=60))
def test_no_more_waits_than_the_bounds_allow(steps: list[int | None]) -> None:
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
async def test_writes_that_are_large_together_are_refused(tmp_path: Path, message: Message) -> None:
    writer = SqliteLogWriter(tmp_path / "log.db", queue_max=100, queue_max_bytes=1_000, announce=lambda: None)
    with closing(writer), closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writes = asyncio.gather(
            *(writer.write([message], on_conflict=OnConflict.REFUSE) for _ in range(3)), return_exceptions=True
        )
        await asyncio.sleep(0)
        other.execute("COMMIT")
        receipts = await writes
    refused = [one for one in receipts if isinstance(one, Fault)]
    assert {one.reason for one in refused} == {Reason.ERROR_REASON_OVERLOADED}
    assert any(isinstance(one, Written) for one in receipts)


@pytest.mark.parametrize("content", [b"no database at all" * 500, b"SQLite format 3\0" + bytes(5_000)])
def test_a_file_that_is_no_log_is_refused_with_a_word_of_advice(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.db").write_bytes(content)
    with pytest.raises(LogUnusableError, match=r"log\.db cannot be used: .* backup"):
        SqliteLogWriter(tmp_path / "log.db", queue_max=1, queue_max_bytes=1, announce=lambda: None)
    assert (tmp_path / "log.db").read_bytes() == content
