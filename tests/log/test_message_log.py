"""The message log: written once, in order, all or nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nomemory.server import wire
from nomemory.server.faults import Fault, Reason
from nomemory.server.log.protocol import LogCounts, OnConflict, Outcome, Position
from nomemory.server.log.sqlite_reader import SqliteLogReader
from nomemory.server.log.sqlite_writer import SqliteLogWriter
from nomemory.server.message import EVERYTHING, Filter, LoggedMessage, Message, Role


class Log:
    """A log in a directory, with a writer and a reader."""

    def __init__(self, directory: Path) -> None:
        self.writer = SqliteLogWriter(directory / "log.db", queue_max=100, queue_max_bytes=10**9, announce=lambda: None)
        self.reader = SqliteLogReader(directory / "log.db")

    async def write(self, *messages: Message, on_conflict: OnConflict = OnConflict.REFUSE) -> tuple[Outcome, ...]:
        return (await self.writer.write(messages, on_conflict=on_conflict)).outcomes

    def everything(self, user: str = "u", narrowed: Filter = EVERYTHING) -> list[Message]:
        return decoded(self.reader.page(user, narrowed, before=None, pinned=self.reader.sequence(), limit=10_000))

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


def said(content: str, *, message_id: str = "a", ts_us: int = 1, user: str = "u") -> Message:
    return Message(user, message_id, ts_us, Role.USER, content)


def decoded(messages: list[LoggedMessage]) -> list[Message]:
    return [wire.decode(message.wire) for message in messages]


async def test_a_message_comes_back_as_it_was_written(log: Log) -> None:
    message = Message("u", "a", 1_700_000_000_123_456, Role.SYSTEM, "你好\n", "Lin", "c", {"k": "v", "a": ""})
    await log.write(message)
    assert log.everything() == [message]


async def test_a_large_batch_comes_back_whole(log: Log) -> None:
    batch = [
        said(str(n), message_id=f"{n:04}", ts_us=n)._replace(embedding=n.to_bytes(4, "little")) for n in range(1, 1101)
    ]
    assert set(await log.write(*batch)) == {Outcome.CREATED}
    assert [message.content for message in log.everything()] == [str(n) for n in range(1100, 0, -1)]
    assert log.reader.embeddings("u", [one.message_id for one in batch]) == {
        one.message_id: one.embedding for one in batch
    }


async def test_the_same_message_twice_is_stored_once(log: Log) -> None:
    assert await log.write(said("x")) == (Outcome.CREATED,)
    assert await log.write(said("x"), said("x")) == (Outcome.UNCHANGED, Outcome.UNCHANGED)
    assert log.reader.counts("u").messages == 1


@pytest.mark.parametrize(
    "changed",
    [
        said("y"),
        said("x", ts_us=2),
        said("x")._replace(role=Role.ASSISTANT),
        said("x")._replace(metadata={"k": "v"}),
        said("x")._replace(embedding=b"\0\0\x80?"),
    ],
)
async def test_the_same_id_with_anything_else_is_refused_and_leaves_no_trace(log: Log, changed: Message) -> None:
    await log.write(said("x"))
    before = log.reader.sequence()
    with pytest.raises(Fault) as refused:
        await log.write(said("new", message_id="b"), changed)
    assert refused.value.reason == Reason.ERROR_REASON_MESSAGE_CONFLICT
    assert [violation.field for violation in refused.value.violations] == ["messages[1].message_id"]
    assert log.everything() == [said("x")]
    assert log.reader.sequence() == before


async def test_a_conflict_within_one_batch_is_refused_too(log: Log) -> None:
    with pytest.raises(Fault):
        await log.write(said("x"), said("y"))
    assert log.everything() == []


async def test_conflicts_can_be_skipped(log: Log) -> None:
    await log.write(said("x"))
    outcomes = await log.write(said("y"), said("z", message_id="b"), on_conflict=OnConflict.SKIP)
    assert outcomes == (Outcome.CONFLICT, Outcome.CREATED)
    assert [message.content for message in log.everything()] == ["z", "x"]


async def test_a_replacement_may_change_every_field_and_is_a_new_version(log: Log) -> None:
    await log.write(said("x", ts_us=5))
    old = log.reader.by_ids("u", ["a"])["a"].sequence
    newer = Message("u", "a", 1, Role.ASSISTANT, "y", "N", "c", {"k": "v"})
    assert await log.write(newer, on_conflict=OnConflict.REPLACE) == (Outcome.REPLACED,)
    assert log.everything() == [newer]
    assert log.reader.by_sequences("u", [old]) == {}
    assert [change.removed_sequence for change in log.reader.changes(old, 10)] == [old, None]
    assert log.reader.counts("u").messages == 1


async def test_deleting_reports_what_was_not_there(log: Log) -> None:
    await log.write(said("x"), said("y", message_id="b"))
    receipt = await log.writer.delete("u", ["a", "nobody", "a"])
    assert (receipt.deleted, receipt.missing) == (1, ("nobody",))
    assert [message.message_id for message in log.everything()] == ["b"]
    assert log.reader.counts("u").messages == 1
    assert log.reader.user_sequence("u") == receipt.sequence


async def test_another_users_id_neither_conflicts_nor_is_deleted(log: Log) -> None:
    await log.write(said("x"), said("y", user="v"))
    assert (await log.writer.delete("w", ["a"])).missing == ("a",)
    assert log.everything("v") == [said("y", user="v")]
    assert log.reader.by_sequences("v", [log.reader.by_ids("u", ["a"])["a"].sequence]) == {}


async def test_concurrent_batches_are_all_there_and_each_has_its_own_sequence(log: Log) -> None:
    batches = [[said("x", message_id=f"{batch}-{n}", ts_us=n) for n in range(20)] for batch in range(40)]
    await asyncio.gather(*(log.write(*batch) for batch in batches))
    feed = log.reader.changes(0, 10_000)
    assert [change.sequence for change in feed] == list(range(1, 801))
    assert log.reader.counts(None).messages == 800


async def test_a_refused_batch_does_not_spoil_those_committed_with_it(log: Log) -> None:
    await log.write(said("x"))
    bad, good = await asyncio.gather(log.write(said("y")), log.write(said("z", message_id="b")), return_exceptions=True)
    assert isinstance(bad, Fault)
    assert good == (Outcome.CREATED,)


async def test_an_embedding_is_kept_beside_its_message_and_goes_with_it(log: Log) -> None:
    await log.write(said("x")._replace(embedding=b"\0\0\x80?"))
    assert log.reader.embeddings("u", ["a", "b"]) == {"a": b"\0\0\x80?"}
    await log.writer.delete("u", ["a"])
    assert log.reader.embeddings("u", ["a"]) == {}


async def test_what_was_touched_is_told_between_two_sequences_with_vectors_of_the_callers_own_apart(log: Log) -> None:
    await log.write(said("x"), said("y", message_id="b")._replace(embedding=b"\0\0\x80?"), said("z", message_id="c"))
    await log.writer.delete("u", ["c"])

    def touched(after: int, until: int, *, own: bool = False) -> list[tuple[int, str]]:
        found = log.reader.touched(after, until, own_vectors_only=own)
        return [(one.sequence, one.message_id) for one in found]

    assert touched(0, 4) == [(1, "a"), (2, "b"), (4, "c")]
    assert touched(1, 2) == [(2, "b")]
    assert touched(0, 3, own=True) == [(2, "b")]
    assert touched(0, 4, own=True) == [(2, "b"), (4, "c")], "of what is gone nobody knows any more"


async def test_a_log_whose_vectors_are_clustered_by_id_goes_on(tmp_path: Path) -> None:
    Log(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        file.executescript(
            "DROP TABLE embeddings; CREATE TABLE embeddings (user_id TEXT NOT NULL, message_id TEXT NOT NULL, "
            "vector BLOB NOT NULL, PRIMARY KEY (user_id, message_id)) WITHOUT ROWID;"
        )
    log = Log(tmp_path)
    first, second = said("x")._replace(embedding=b"\0\0\x80?"), said("x")._replace(embedding=b"\0\0\0@")
    assert await log.write(first) == (Outcome.CREATED,)
    assert await log.write(first) == (Outcome.UNCHANGED,)
    assert await log.write(second, on_conflict=OnConflict.REPLACE) == (Outcome.REPLACED,)
    assert log.reader.embeddings("u", ["a"]) == {"a": second.embedding}
    assert [one.sequence for one in log.reader.touched(0, 3, own_vectors_only=True)] == [3, 2]
    log.close()


async def test_users_are_counted_over_many_batches(log: Log) -> None:
    for batch in range(3):
        await log.write(*(said("x", message_id=f"{batch}-{n}", user=f"u{n % 600}") for n in range(batch * 300 + 300)))
    assert log.reader.counts("u0").messages == 1 + 1 + 2
    assert log.reader.counts("u599") == LogCounts(1800, 1 + 1, 1)
    assert log.reader.counts(None).messages == 1800


async def test_the_sequence_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = Log(tmp_path)
    await first.write(said("x"))
    await first.writer.delete("u", ["a"])
    first.close()
    second = Log(tmp_path)
    await second.write(said("y", message_id="b"))
    assert second.reader.sequence() == 3
    second.close()


async def test_neighbours_with_the_anchors_own_time_are_not_lost(log: Log) -> None:
    await log.write(*(said("x", message_id=name, ts_us=7) for name in "abcde"), said("z", message_id="z", ts_us=1))
    before, after = log.reader.around(log.reader.by_ids("u", ["c"])["c"], 3, 1)
    assert [message.message_id for message in before] == ["z", "a", "b"]
    assert [message.message_id for message in after] == ["d"]


messages = st.lists(
    st.builds(
        Message,
        user_id=st.sampled_from(["u", "v"]),
        message_id=st.text("aé中😀", min_size=1, max_size=3),
        ts_us=st.integers(0, 6),
        role=st.sampled_from(Role),
        content=st.just("x"),
        name=st.just(""),
        conversation_id=st.sampled_from(["", "c", "d"]),
        metadata=st.just({}),
        embedding=st.none(),
    ),
    max_size=40,
    unique_by=lambda message: (message.user_id, message.message_id),
)
filters = st.builds(
    Filter,
    since_us=st.none() | st.integers(0, 6),
    until_us=st.none() | st.integers(0, 7),
    role=st.none() | st.sampled_from(Role),
    conversation_id=st.sampled_from(["", "c", "d"]),
)


def oracle(stored: list[Message], user: str, narrowed: Filter) -> list[Message]:
    return sorted(
        (
            m
            for m in stored
            if m.user_id == user
            and (narrowed.since_us is None or m.ts_us >= narrowed.since_us)
            and (narrowed.until_us is None or m.ts_us < narrowed.until_us)
            and narrowed.role in (None, m.role)
            and narrowed.conversation_id in ("", m.conversation_id)
        ),
        key=lambda m: (m.ts_us, m.message_id),
        reverse=True,
    )


@given(stored=messages, narrowed=filters, size=st.integers(1, 5), late=messages)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_are_what_a_brute_force_reading_gives_while_writes_land(
    tmp_path_factory: pytest.TempPathFactory, stored: list[Message], narrowed: Filter, size: int, late: list[Message]
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))

    async def walk() -> list[Message]:
        await log.write(*stored)
        pinned, before, walked = log.reader.sequence(), None, []
        while page := log.reader.page("u", narrowed, before=before, pinned=pinned, limit=size):
            walked += decoded(page)
            before = Position(page[-1].ts_us, page[-1].message_id)
            await log.write(*late, on_conflict=OnConflict.SKIP)
        return walked

    try:
        assert asyncio.run(walk()) == oracle(stored, "u", narrowed)
    finally:
        log.close()


async def test_a_batch_that_cannot_be_written_spoils_no_other_of_its_commit(log: Log) -> None:
    beyond_sqlite = said("x", message_id="bad", ts_us=2**63)
    batches = [[said(f"{n}", message_id=f"m{n}")] for n in range(20)]
    batches.insert(7, [said("y", message_id="with the bad one"), beyond_sqlite])
    outcomes = await asyncio.gather(
        *(log.writer.write(batch, on_conflict=OnConflict.REFUSE) for batch in batches), return_exceptions=True
    )
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, BaseException)] == [7]
    assert {message.message_id for message in log.everything()} == {f"m{n}" for n in range(20)}


async def test_storage_that_refuses_one_batch_says_so_to_that_one_alone(log: Log) -> None:
    sqlite = log.writer._connection
    sqlite.execute(
        "CREATE TRIGGER full BEFORE INSERT ON messages WHEN NEW.message_id = 'bad' BEGIN SELECT raise(ABORT, 'no'); END"
    )
    writes = [log.write(said("x", message_id=message_id)) for message_id in ("a", "bad", "b")]
    first, refused, last = await asyncio.gather(*writes, return_exceptions=True)
    assert first == last == (Outcome.CREATED,)
    assert isinstance(refused, Fault)
    assert refused.reason == Reason.ERROR_REASON_STORAGE_UNAVAILABLE


async def test_resolving_an_id_does_not_walk_through_all_that_a_user_ever_said(log: Log) -> None:
    await log.write(*(said("x", message_id=f"m{n}", ts_us=n) for n in range(2000)))
    steps = []
    log.reader._connection.set_progress_handler(lambda: steps.append(1), 100)
    assert set(log.reader.by_ids("u", ["m7", "m1999", "nobody's"])) == {"m7", "m1999"}
    assert len(steps) < 5


async def test_a_page_within_a_range_costs_the_same_wherever_it_stands(log: Log) -> None:
    await log.write(*(said("x", message_id=f"{n:05}", ts_us=n) for n in range(5000)))
    narrowed, steps = Filter(until_us=4999), 0

    def note_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def steps_of_page(below: int) -> int:
        nonlocal steps
        steps = 0
        found = log.reader.page("u", narrowed, before=Position(below, ""), pinned=10_000, limit=20)
        assert [message.ts_us for message in found] == list(range(below - 1, below - 21, -1))
        return steps

    log.reader._connection.set_progress_handler(note_step, 10)
    assert steps_of_page(100) <= 2 * steps_of_page(4900)
