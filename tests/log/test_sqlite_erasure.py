"""An erasure removes deleted rows, and nothing else, from the files of a SQLite log."""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from nomemory.server.message import Message, Role
from nomemory.server.store.results import OnConflict, PendingRemovals
from nomemory.server.store.sqlite.erasure import SqliteLogErasure
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.schema import open_read_only_log
from nomemory.server.store.sqlite.writer import SqliteLogWriter

PIECES, WHOLE = 0, 10**9


@asynccontextmanager
async def opened(path: Path, max_vacuum_bytes: int = PIECES) -> AsyncIterator[tuple[SqliteLogWriter, SqliteLogErasure]]:
    writer = SqliteLogWriter(path, queue_max=100, queue_max_bytes=10**9, announce=lambda: None)
    erasure = SqliteLogErasure(writer, path, max_vacuum_bytes)
    try:
        yield writer, erasure
    finally:
        writer.close()
        erasure.close()


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - nothing secret


def message(n: int, chance: random.Random) -> Message:
    return Message(
        f"user{n % 7}",
        f"id{n:06d}x",
        chance.randrange(10**6),
        Role.USER,
        f"TXT{n:06d}|" * chance.choice([1, 5, 20, 80, 600]),
        conversation_id=f"talk{n:06d}x",
        metadata={"key": f"META{n:06d}"},
        embedding=f"VEC{n:06d}x|".encode() * 96,
    )


def left(directory: Path, numbers: list[int]) -> list[int]:
    held = b"".join(file.read_bytes() for file in directory.iterdir())
    remaining = set(map(int, re.findall(rb"(?:TXT|VEC|id|talk|META)([0-9]{6})", held)))
    return [n for n in numbers if n in remaining]


async def erase_everything(erasure: SqliteLogErasure) -> None:
    removals = await erasure.read_pending_removals(1)
    assert removals is not None
    while await erasure.delete_removals(removals.until, 100):
        pass
    while await erasure.release_free_pages(50):
        pass
    at: int | None = 0
    while at is not None:
        at = await erasure.overwrite_unused_bytes(at, 100)


@pytest.mark.parametrize("max_vacuum_bytes", [PIECES, WHOLE])
async def test_an_erasure_removes_all_bytes_of_removed_rows_only(tmp_path: Path, max_vacuum_bytes: int) -> None:
    chance = dice(3)
    path = tmp_path / "log.db"
    stored, gone = dict[int, Message](), list[int]()
    async with opened(path, max_vacuum_bytes) as (writer, erasure):
        for batch in range(15):
            some = {n: message(n, chance) for n in range(batch * 80, batch * 80 + 80)}
            await writer.write(list(some.values()), on_conflict=OnConflict.REFUSE)
            stored |= some
            going = [stored.pop(n) for n in chance.sample(sorted(stored), 50)]
            await asyncio.gather(*(writer.delete(deleted.user_id, [deleted.message_id]) for deleted in going))
            gone += [int(deleted.message_id[2:8]) for deleted in going]
        assert left(tmp_path, gone) == gone
        await erase_everything(erasure)
        assert left(tmp_path, gone) == []
        assert await erasure.read_pending_removals(1) is None
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA freelist_count").fetchone() == (0,)
    reader = SqliteLogReader(path)
    for kept in stored.values():
        assert list(await reader.read_messages(kept.user_id, [kept.message_id])) == [kept.message_id]
    await reader.close()


async def test_an_erasure_that_was_interrupted_after_the_removal_records_were_deleted_is_repeated(
    tmp_path: Path,
) -> None:
    path, written = tmp_path / "log.db", message(1, dice(3))
    async with opened(path) as (writer, erasure):
        await writer.write([written], on_conflict=OnConflict.REFUSE)
        await writer.delete(written.user_id, [written.message_id])
        removals = await erasure.read_pending_removals(1)
        assert removals is not None
        assert not await erasure.delete_removals(removals.until, 100)
    async with opened(path) as (_, erasure):
        assert await erasure.read_pending_removals(1) == PendingRemovals(removals.until, are_many=True)
        await erase_everything(erasure)
        assert left(tmp_path, [1]) == []
        assert await erasure.read_pending_removals(1) is None


async def test_sequences_are_never_reused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    chance = dice(1)
    async with opened(path) as (writer, erasure):
        await writer.write([message(n, chance) for n in range(10)], on_conflict=OnConflict.REFUSE)
        erased = [await writer.erase(f"user{n}") for n in range(7)]
        await erase_everything(erasure)
    latest = max(message.sequence for message in erased)
    reader = SqliteLogReader(path)
    assert (await reader.count_users_and_messages(None)).sequence == await reader.read_sequence() == latest
    assert await reader.list_users(after="", limit=9) == []
    await reader.close()
    async with opened(path) as (writer, _):
        written = await writer.write([message(11, chance)], on_conflict=OnConflict.REFUSE)
        assert written.sequence == latest + 1


async def test_only_users_without_messages_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    chance = dice(1)
    async with opened(path) as (writer, erasure):
        await writer.write([message(n, chance) for n in (0, 1, 7)], on_conflict=OnConflict.REFUSE)
        await writer.delete("user0", ["id000007x"])
        await writer.erase("user1")
        await erase_everything(erasure)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT user_id, messages FROM users").fetchall() == [("user0", 1)]


async def test_an_erasure_waits_for_a_blocking_reader(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    chance = dice(1)
    async with opened(path) as (writer, erasure):
        await writer.write([message(n, chance) for n in range(10)], on_conflict=OnConflict.REFUSE)
        with closing(open_read_only_log(path)) as reading:
            cursor = reading.execute("SELECT wire FROM messages")
            cursor.fetchone()
            await writer.delete("user1", ["id000001x"])
            assert await erasure.overwrite_unused_bytes(0, 100) == 0
            cursor.close()
            assert await erasure.overwrite_unused_bytes(0, 10_000) is None
        assert left(tmp_path, [0]) == [0]
