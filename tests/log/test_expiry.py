"""Expired messages are hidden from reads at once and removed by a sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from log.engine import Engine, Log
from log.test_message_log import new_message

from nomemory.server import wire
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.store.results import OnConflict, WriteOutcome
from nomemory.server.store.retention import RetentionPolicy

NOW = 1_000


class Clock:
    """A clock that changes only when it is set."""

    now_us = NOW

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the log."""
    return Clock()


@pytest.fixture
async def log(engine: Engine, tmp_path: Path, clock: Clock) -> AsyncIterator[Log]:
    """Return a log with a permanent and an expiring message."""
    log = await engine(tmp_path, RetentionPolicy(now_us=clock))
    await log.write(
        new_message("stays", message_id="a", ts_us=1),
        new_message("goes", message_id="b", ts_us=2)._replace(expire_us=NOW + 5),
    )
    await log.write(new_message("stays", message_id="c", ts_us=3))
    yield log
    await log.close()


async def ids_by_every_read(log: Log) -> list[list[str]]:
    """Return the ids of all messages, once for each read."""
    reader, pinned = log.reader, await log.reader.read_sequence()
    page = await reader.read_page("u", EVERYTHING, before=None, pinned=pinned, limit=10)
    wires = await reader.read_encoded_page("u", EVERYTHING, after=None, pinned=pinned, limit=10)
    by_ids = await reader.read_messages("u", ["a", "b", "c"])
    by_sequences = await reader.read_versions("u", range(10))
    [around] = await reader.read_neighbors([page[-1]], 5, 5)
    neighbors = await reader.read_encoded_neighbors("u", "a", 5, 5)
    assert neighbors
    return [
        [message.message_id for message in reversed(page)],
        [wire.decode(encoded).message_id for encoded in reversed(wires)],
        sorted(by_ids),
        sorted(message.message_id for message in by_sequences.values()),
        ["a", *(message.message_id for message in around.after)],
        ["a", *(wire.decode(encoded).message_id for encoded in neighbors.after)],
    ]


async def test_expired_messages_are_hidden_from_every_read(log: Log, clock: Clock) -> None:
    clock.now_us = NOW + 4
    assert await ids_by_every_read(log) == [["a", "b", "c"]] * 6
    assert (await log.reader.count_users_and_messages("u")).messages == 3
    clock.now_us = NOW + 5
    assert await ids_by_every_read(log) == [["a", "c"]] * 6
    assert await log.reader.read_encoded_neighbors("u", "b", 1, 1) is None
    assert (
        (await log.reader.count_users_and_messages("u")).messages
        == (await log.reader.count_users_and_messages(None)).messages
        == 2
    )


async def test_a_user_with_only_expired_messages_is_not_counted(log: Log, clock: Clock) -> None:
    await log.write(new_message("x", user="v")._replace(expire_us=NOW + 1))
    assert (
        (await log.reader.count_users_and_messages(None)).users,
        (await log.reader.count_users_and_messages("v")).users,
    ) == (2, 1)
    clock.now_us += 1
    assert (
        (await log.reader.count_users_and_messages(None)).users,
        (await log.reader.count_users_and_messages("v")).users,
    ) == (1, 0)


async def test_a_sweep_removes_expired_messages_and_feeds_the_removals(log: Log, clock: Clock) -> None:
    assert await log.sweep() == 0
    clock.now_us = NOW + 5
    before = await log.reader.count_users_and_messages(None)
    assert await log.sweep(limit=1) == 1
    assert await log.sweep() == 0
    after = await log.reader.count_users_and_messages(None)
    assert (after.messages, after.users) == (before.messages, before.users)
    assert after.sequence > before.sequence
    [removal] = log.feed.read_changes(before.sequence, 10)
    assert (removal.message_id, removal.removed_sequence) == ("b", 2)


async def test_an_expired_message_does_not_conflict_with_a_new_one(log: Log, clock: Clock) -> None:
    clock.now_us = NOW + 5
    assert await log.write(new_message("other", message_id="b")) == (WriteOutcome.CREATED,)
    assert (await log.reader.count_users_and_messages("u")).messages == 3
    clock.now_us += 1
    assert await log.sweep() == 0


async def test_deleting_an_expired_message_reports_it_as_missing(log: Log, clock: Clock) -> None:
    clock.now_us = NOW + 5
    deleted = await log.writer.delete("u", ["a", "b"])
    assert (deleted.deleted, deleted.missing) == (1, ("b",))
    assert await log.sweep() == 0


async def test_an_erasure_does_not_count_expired_messages(log: Log, clock: Clock) -> None:
    clock.now_us = NOW + 5
    assert (await log.writer.erase("u")).deleted == 2
    assert await log.sweep() == 0


async def test_a_different_expiry_time_is_a_conflict(log: Log) -> None:
    longer = new_message("goes", message_id="b", ts_us=2)._replace(expire_us=NOW + 6)
    assert await log.write(longer, on_conflict=OnConflict.SKIP) == (WriteOutcome.CONFLICT,)
    assert await log.write(longer, on_conflict=OnConflict.REPLACE) == (WriteOutcome.REPLACED,)


async def test_messages_beyond_the_maximum_age_are_hidden_from_every_read(
    engine: Engine, tmp_path: Path, clock: Clock
) -> None:
    log = await engine(tmp_path, RetentionPolicy(100, clock))
    await log.write(
        new_message("old", message_id="b", ts_us=NOW - 99),
        new_message("x", message_id="a", ts_us=NOW),
        new_message("x", message_id="c", ts_us=NOW)._replace(expire_us=NOW + 50),
    )
    assert (await log.reader.count_users_and_messages("u")).messages == 3
    clock.now_us += 1
    assert await ids_by_every_read(log) == [["a", "c"]] * 6
    assert (
        (await log.reader.count_users_and_messages("u")).messages
        == (await log.reader.count_users_and_messages(None)).messages
        == 2
    )
    clock.now_us += 49
    assert (
        (await log.reader.count_users_and_messages("u")).messages
        == (await log.reader.count_users_and_messages(None)).messages
        == 1
    )
    assert await log.sweep() == 2
    await log.close()


async def test_a_sweep_reaches_all_users_in_small_steps(engine: Engine, tmp_path: Path, clock: Clock) -> None:
    log = await engine(tmp_path, RetentionPolicy(100, clock))
    await log.write(
        *(new_message("x", user=f"u{n:04}", message_id=f"m{k}", ts_us=k) for n in range(1200) for k in (1, NOW))
    )
    assert await log.sweep(limit=7) == 1200
    assert (await log.reader.count_users_and_messages(None)).messages == 1200
    await log.close()
