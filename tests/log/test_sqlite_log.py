"""Guarantees of a SQLite log beyond the contract: upgrades, read costs and storage errors."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from log.engine import Log, open_sqlite_log
from log.test_message_log import new_message

from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.metadata_hashes import compute_entry_hash_bytes
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.results import MessagePosition, OnConflict, WriteOutcome
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.schema import open_writable_log
from nomemory.server.store.sqlite.writer import SqliteLogWriter
from nomemory.server.wire import decode


def connection_of(log: Log) -> sqlite3.Connection:
    assert isinstance(log.reader, SqliteLogReader)
    return log.reader._rows.connection


def tagged(number: int, metadata: dict[str, str]) -> Message:
    return new_message("x", message_id=f"m{number}", ts_us=number)._replace(metadata=metadata)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    log = await open_sqlite_log(tmp_path)
    yield log
    await log.close()


async def test_a_log_with_clustered_vectors_still_works(tmp_path: Path) -> None:
    await (await open_sqlite_log(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        file.executescript(
            "DROP TABLE embeddings; CREATE TABLE embeddings (user_id TEXT NOT NULL, message_id TEXT NOT NULL, "
            "vector BLOB NOT NULL, PRIMARY KEY (user_id, message_id)) WITHOUT ROWID;"
        )
    log = await open_sqlite_log(tmp_path)
    first, second = new_message("x")._replace(embedding=b"\0\0\x80?"), new_message("x")._replace(embedding=b"\0\0\0@")
    assert await log.write(first) == (WriteOutcome.CREATED,)
    assert await log.write(first) == (WriteOutcome.UNCHANGED,)
    assert await log.write(second, on_conflict=OnConflict.REPLACE) == (WriteOutcome.REPLACED,)
    assert log.feed.read_embeddings("u", ["a"]) == {"a": second.embedding}
    taken = log.feed.read_change_refs(
        FeedPosition.from_sequence(0), FeedPosition.from_sequence(3), 100, caller_vectors_only=True
    )
    assert [message.sequence for message in taken.entries] == [3, 2]
    await log.close()


async def test_an_upgrade_from_schema_1_indexes_the_metadata(tmp_path: Path) -> None:
    first = await open_sqlite_log(tmp_path)
    await first.write(*(tagged(n, {"n": str(n % 3)} if n % 2 else {}) for n in range(3000)))
    before = await first.everything()
    await first.close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        file.executescript(
            """
            DROP TABLE metadata_entries; DROP TABLE requests; DROP INDEX messages_by_expiry;
            DROP TABLE erasures; DROP TABLE epochs;
            ALTER TABLE messages DROP COLUMN expire_us; ALTER TABLE messages DROP COLUMN crc; PRAGMA user_version=1;
            """
        )
    for _ in range(2):
        log = await open_sqlite_log(tmp_path)
        assert await log.everything() == before
        assert await log.everything(message_filter=Filter(metadata=(("n", "1"),))) == [
            message for message in before if message.metadata.get("n") == "1"
        ]
        await log.close()


async def test_a_rare_metadata_entry_is_found_without_a_scan(log: Log) -> None:
    messages = (tagged(n, {"app": "phone", "order": str(n)}) for n in range(5000))
    await log.write(*messages)
    steps = []
    connection_of(log).set_progress_handler(lambda: steps.append(1), 1000)
    for metadata in ((("order", "17"),), (("app", "phone"), ("order", "17"))):
        assert [message.message_id for message in await log.everything(message_filter=Filter(metadata=metadata))] == [
            "m17"
        ]
    assert len(steps) < 60, "only counting the common entry is slow"
    steps.clear()
    page = await log.reader.read_encoded_page(
        "u", Filter(metadata=(("app", "phone"),)), after=None, pinned=2**62, limit=20
    )
    assert len(page) == 20
    assert len(steps) < 3


async def test_a_late_page_of_a_metadata_filter_costs_as_much_as_the_first(log: Log) -> None:
    await log.write(*(tagged(n, {"app": "phone"}) for n in range(5000)))
    message_filter, steps = Filter(metadata=(("app", "phone"),)), list[int]()
    connection_of(log).set_progress_handler(lambda: steps.append(1), 100)
    for below in (4900, 100):
        steps.clear()
        page = await log.reader.read_page(
            "u", message_filter, before=MessagePosition(below, ""), pinned=10_000, limit=20
        )
        assert [message.ts_us for message in page] == list(range(below - 1, below - 21, -1))
        assert len(steps) < 20


async def test_metadata_of_removed_messages_is_deleted(log: Log) -> None:
    await log.write(*(tagged(n, {"k": "v", "n": str(n)}) for n in range(4)))
    await log.writer.delete("u", ["m0", "m1"])
    await log.write(tagged(2, {"k": "w"}), on_conflict=OnConflict.REPLACE)
    await log.write(tagged(3, {}), on_conflict=OnConflict.REPLACE)
    left = connection_of(log).execute("SELECT message_id, mark FROM metadata_entries").fetchall()
    assert left == [("m2", compute_entry_hash_bytes(("k", "w")))]


async def test_a_failing_batch_does_not_fail_others_in_its_commit(log: Log) -> None:
    beyond_sqlite = new_message("x", message_id="bad", ts_us=2**63)
    batches = [[new_message(f"{n}", message_id=f"m{n}")] for n in range(20)]
    batches.insert(7, [new_message("y", message_id="with the bad one"), beyond_sqlite])
    outcomes = await asyncio.gather(
        *(log.writer.write(batch, on_conflict=OnConflict.REFUSE) for batch in batches), return_exceptions=True
    )
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, BaseException)] == [7]
    assert {message.message_id for message in await log.everything()} == {f"m{n}" for n in range(20)}


async def test_a_storage_error_is_reported_only_to_its_batch(log: Log) -> None:
    assert isinstance(log.writer, SqliteLogWriter)
    log.writer._connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON messages WHEN NEW.message_id = 'bad' BEGIN SELECT raise(ABORT, 'no'); END"
    )
    writes = [log.write(new_message("x", message_id=message_id)) for message_id in ("a", "bad", "b")]
    first, refused, last = await asyncio.gather(*writes, return_exceptions=True)
    assert first == last == (WriteOutcome.CREATED,)
    assert isinstance(refused, Fault)
    assert refused.reason == Reason.ERROR_REASON_STORAGE_UNAVAILABLE


async def test_resolving_an_id_does_not_scan_the_user(log: Log) -> None:
    await log.write(*(new_message("x", message_id=f"m{n}", ts_us=n) for n in range(2000)))
    steps = []
    connection_of(log).set_progress_handler(lambda: steps.append(1), 100)
    assert set(await log.reader.read_messages("u", ["m7", "m1999", "nobody's"])) == {"m7", "m1999"}
    assert len(steps) < 5


async def test_a_page_in_a_time_range_has_constant_cost(log: Log) -> None:
    await log.write(*(new_message("x", message_id=f"{n:05}", ts_us=n) for n in range(5000)))
    message_filter, steps = Filter(until_us=4999), 0

    def note_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    async def steps_of_page(below: int) -> int:
        nonlocal steps
        steps = 0
        page = await log.reader.read_page(
            "u", message_filter, before=MessagePosition(below, ""), pinned=10_000, limit=20
        )
        assert [message.ts_us for message in page] == list(range(below - 1, below - 21, -1))
        return steps

    connection_of(log).set_progress_handler(note_step, 10)
    assert await steps_of_page(100) <= 2 * await steps_of_page(4900)


@pytest.mark.parametrize("message_filter", [Filter(role=Role.TOOL), Filter(metadata=(("a", "1"), ("b", "1")))])
async def test_unindexed_filters_do_not_block_the_event_loop(log: Log, message_filter: Filter) -> None:
    matching = tagged(0, {"a": "1", "b": "1"})._replace(role=Role.TOOL)
    await log.write(matching, *(tagged(n, {"a": "1"} if n % 2 else {"b": "1"}) for n in range(1, 6_000)))

    async def listed() -> list[Message]:
        page = await log.reader.read_page("u", message_filter, before=None, pinned=6_000, limit=2)
        wires = await log.reader.read_encoded_page("u", message_filter, after=None, pinned=6_000, limit=2)
        assert wires == [message.wire for message in page]
        return [decode(wire) for wire in wires]

    listing, turns = asyncio.ensure_future(listed()), 0
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    assert [message.message_id for message in await listing] == [matching.message_id]
    assert turns > 2, "other tasks must run meanwhile"
    plain = log.reader.read_page("u", EVERYTHING, before=None, pinned=6_000, limit=2)
    with pytest.raises(StopIteration):
        plain.send(None)  # the read completes without suspending


def test_a_commit_is_durable_when_it_returns(tmp_path: Path) -> None:
    with closing(open_writable_log(tmp_path / "log.db")) as connection:
        modes = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]
    assert modes == [2, "wal"]
