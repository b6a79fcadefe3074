"""Counts, conversations, users and pages of a log equal a brute-force reference."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from log.engine import Engine, Log, open_sqlite_log
from log.test_message_log import filters, messages, oracle

from nomemory.server import wire
from nomemory.server.message import Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.store.results import ConversationSummary, MessagePosition, OnConflict
from nomemory.server.store.sqlite.reader import SqliteLogReader


def new_message(message_id: str, ts_us: int, conversation_id: str = "") -> Message:
    return Message("u", message_id, ts_us, Role.USER, "x", conversation_id=conversation_id)


def summed_up(stored: list[Message], user: str) -> list[ConversationSummary]:
    times: dict[str, list[int]] = {}
    for message in oracle(stored, user, EVERYTHING):
        if message.conversation_id:
            times.setdefault(message.conversation_id, []).append(message.ts_us)
    summaries = [ConversationSummary(name, min(ts), max(ts), len(ts)) for name, ts in times.items()]
    return sorted(summaries, key=lambda summary: (summary.last_us, summary.conversation_id), reverse=True)


@given(stored=messages, message_filter=filters)
async def test_counts_conversations_and_users_equal_brute_force(
    log: Log, *, stored: list[Message], message_filter: Filter
) -> None:
    await log.erase("u", "v")  # the messages of the previous example
    await log.write(*stored)
    names = sorted({message.user_id for message in stored})
    for user in names:
        assert await log.reader.count_messages(user, message_filter) == len(oracle(stored, user, message_filter))
        pinned = await log.reader.read_user_sequence(user)
        assert await log.reader.list_conversations(user, pinned=pinned) == summed_up(stored, user)
    live_counts = [(user, len(oracle(stored, user, EVERYTHING))) for user in names]
    counts = [(user, messages) for user, messages in live_counts if messages]
    assert await log.reader.list_users(after="", limit=100) == counts
    assert await log.reader.list_users(after=counts[0][0] if counts else "", limit=1) == counts[1:2]


@given(stored=messages, message_filter=filters, size=st.integers(1, 5), late=messages)
async def test_oldest_first_pages_equal_brute_force_during_writes(
    log: Log, *, stored: list[Message], message_filter: Filter, size: int, late: list[Message]
) -> None:
    await log.erase("u", "v")
    await log.write(*stored)
    pinned, after, walked = await log.reader.read_sequence(), None, list[Message]()
    while wires := await log.reader.read_encoded_page(
        "u", message_filter, after=after, pinned=pinned, limit=size, oldest_first=True
    ):
        walked += map(wire.decode, wires)
        after = MessagePosition(*wire.build_sort_key(wires[-1]))
        await log.write(*late, on_conflict=OnConflict.SKIP)
    assert walked == oracle(stored, "u", message_filter)[::-1]


async def test_pinned_conversations_exclude_removed_messages(engine: Engine, tmp_path: Path) -> None:
    log = await engine(tmp_path)
    await log.write(
        new_message("a1", 1, "a"), new_message("a9", 9, "a"), new_message("b5", 5, "b"), new_message("c2", 2, "c")
    )
    pinned = await log.reader.read_user_sequence("u")
    await log.write(new_message("a7", 7, "a"), new_message("d9", 9, "d"))
    await log.write(new_message("b5", 8, "b"), on_conflict=OnConflict.REPLACE)
    await log.writer.delete("u", ["a9"])
    assert await log.reader.list_conversations("u", pinned=pinned) == [
        ConversationSummary("c", 2, 2, 1),
        ConversationSummary("a", 1, 1, 1),
    ]
    await log.close()


async def test_users_are_filtered_by_prefix(engine: Engine, tmp_path: Path) -> None:
    log = await engine(tmp_path)
    for user in ("a:1", "a:é", "a;", "a", "b:1"):
        await log.write(Message(user, "m", 0, Role.USER, "x"))
    assert await log.reader.list_users(after="", limit=9, prefix="a:") == [("a:1", 1), ("a:é", 1)]
    assert await log.reader.list_users(after="a:1", limit=9, prefix="a:") == [("a:é", 1)]
    await log.close()


async def test_a_page_of_an_export_has_constant_cost(tmp_path: Path) -> None:
    log = await open_sqlite_log(tmp_path)
    await log.write(*(new_message(f"{n:05}", n) for n in range(5000)))
    assert isinstance(log.reader, SqliteLogReader)
    steps = 0

    def note_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    log.reader._rows.connection.set_progress_handler(note_step, 10)

    async def steps_of_slice(above: int) -> int:
        nonlocal steps
        steps = 0
        page = await log.reader.read_encoded_page(
            "u", Filter(since_us=10), after=MessagePosition(above, "~"), pinned=10_000, limit=20, oldest_first=True
        )
        assert [wire.decode(encoded).ts_us for encoded in page] == list(range(above + 1, above + 21))
        return steps

    assert await steps_of_slice(4900) <= 2 * await steps_of_slice(100)
    await log.close()


async def test_a_long_count_does_not_block_the_event_loop(tmp_path: Path) -> None:
    log = await open_sqlite_log(tmp_path)
    await log.write(*(new_message(f"{n:05}", n) for n in range(5000)))
    counting = asyncio.create_task(log.reader.count_messages("u", Filter(role=Role.USER)))
    await asyncio.sleep(0)
    assert not counting.done()
    assert await log.reader.read_user_sequence("u") == 5000
    assert await counting == 5000
    await log.close()
