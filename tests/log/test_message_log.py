"""The contract of the message log: idempotent, ordered and atomic writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log.engine import Engine, Log, decoded

from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Message, Role
from nomemory.server.message_filter import Filter
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.results import LogCounts, MessagePosition, OnConflict, WriteOutcome

LONG_AGO, LATER = 10, 10**16
"""Expiry times; the second one is far in the future."""


def new_message(content: str, *, message_id: str = "a", ts_us: int = 1, user: str = "u") -> Message:
    return Message(user, message_id, ts_us, Role.USER, content)


async def test_a_message_is_read_as_it_was_written(log: Log) -> None:
    message = Message("u", "a", 1_700_000_000_123_456, Role.SYSTEM, "你好\n", "Lin", "c", {"k": "v", "a": ""})
    await log.write(message)
    assert await log.everything() == [message]


async def test_a_large_batch_is_read_completely(log: Log) -> None:
    batch = [
        new_message(str(n), message_id=f"{n:04}", ts_us=n)._replace(embedding=n.to_bytes(4, "little"))
        for n in range(1, 1101)
    ]
    assert set(await log.write(*batch)) == {WriteOutcome.CREATED}
    assert [message.content for message in await log.everything()] == [str(n) for n in range(1100, 0, -1)]
    assert log.feed.read_embeddings("u", [message.message_id for message in batch]) == {
        message.message_id: message.embedding for message in batch
    }


async def test_a_repeated_message_is_stored_once(log: Log) -> None:
    assert await log.write(new_message("x")) == (WriteOutcome.CREATED,)
    assert await log.write(new_message("x"), new_message("x")) == (WriteOutcome.UNCHANGED, WriteOutcome.UNCHANGED)
    assert (await log.reader.count_users_and_messages("u")).messages == 1


@pytest.mark.parametrize(
    "changed",
    [
        new_message("y"),
        new_message("x", ts_us=2),
        new_message("x")._replace(role=Role.ASSISTANT),
        new_message("x")._replace(metadata={"k": "v"}),
        new_message("x")._replace(embedding=b"\0\0\x80?"),
        new_message("x")._replace(retracts=("b",)),
    ],
)
async def test_an_existing_id_with_other_content_is_rejected(log: Log, changed: Message) -> None:
    await log.write(new_message("x"))
    before = await log.reader.read_sequence()
    with pytest.raises(Fault) as refused:
        await log.write(new_message("new", message_id="b"), changed)
    assert refused.value.reason == Reason.ERROR_REASON_MESSAGE_CONFLICT
    assert [violation.field for violation in refused.value.violations] == ["messages[1].message_id"]
    assert await log.everything() == [new_message("x")]
    assert await log.reader.read_sequence() == before


async def test_a_conflict_within_a_batch_is_rejected(log: Log) -> None:
    with pytest.raises(Fault):
        await log.write(new_message("x"), new_message("y"))
    assert await log.everything() == []


async def test_conflicts_can_be_skipped(log: Log) -> None:
    await log.write(new_message("x"))
    outcomes = await log.write(new_message("y"), new_message("z", message_id="b"), on_conflict=OnConflict.SKIP)
    assert outcomes == (WriteOutcome.CONFLICT, WriteOutcome.CREATED)
    assert [message.content for message in await log.everything()] == ["z", "x"]


async def test_a_replacement_may_change_every_field_and_is_a_new_version(log: Log) -> None:
    await log.write(new_message("x", ts_us=5))
    old = (await log.reader.read_messages("u", ["a"]))["a"].sequence
    newer = Message("u", "a", 1, Role.ASSISTANT, "y", "N", "c", {"k": "v"})
    assert await log.write(newer, on_conflict=OnConflict.REPLACE) == (WriteOutcome.REPLACED,)
    assert await log.everything() == [newer]
    assert await log.reader.read_versions("u", [old]) == {}
    assert [change.removed_sequence for change in log.feed.read_changes(old, 10)] == [old, None]
    assert (await log.reader.count_users_and_messages("u")).messages == 1


async def test_deleting_reports_missing_ids(log: Log) -> None:
    await log.write(new_message("x"), new_message("y", message_id="b"))
    receipt = await log.writer.delete("u", ["a", "nobody", "a"])
    assert (receipt.deleted, receipt.missing) == (1, ("nobody",))
    assert [message.message_id for message in await log.everything()] == ["b"]
    assert (await log.reader.count_users_and_messages("u")).messages == 1
    assert await log.reader.read_user_sequence("u") == receipt.sequence


async def test_ids_of_other_users_neither_conflict_nor_are_deleted(log: Log) -> None:
    await log.write(new_message("x"), new_message("y", user="v"))
    assert (await log.writer.delete("w", ["a"])).missing == ("a",)
    assert await log.everything("v") == [new_message("y", user="v")]
    assert await log.reader.read_versions("v", [(await log.reader.read_messages("u", ["a"]))["a"].sequence]) == {}


async def test_concurrent_batches_get_distinct_sequences(log: Log) -> None:
    batches = [[new_message("x", message_id=f"{batch}-{n}", ts_us=n) for n in range(20)] for batch in range(40)]
    await asyncio.gather(*(log.write(*batch) for batch in batches))
    feed = log.feed.read_changes(0, 10_000)
    assert [change.sequence for change in feed] == list(range(1, 801))
    assert (await log.reader.count_users_and_messages(None)).messages == 800


async def test_a_rejected_batch_does_not_affect_the_others_in_its_commit(log: Log) -> None:
    await log.write(new_message("x"))
    bad, good = await asyncio.gather(
        log.write(new_message("y")), log.write(new_message("z", message_id="b")), return_exceptions=True
    )
    assert isinstance(bad, Fault)
    assert good == (WriteOutcome.CREATED,)


async def test_a_vector_is_stored_and_deleted_with_its_message(log: Log) -> None:
    await log.write(new_message("x")._replace(embedding=b"\0\0\x80?"))
    assert log.feed.read_embeddings("u", ["a", "b"]) == {"a": b"\0\0\x80?"}
    await log.writer.delete("u", ["a"])
    assert log.feed.read_embeddings("u", ["a"]) == {}


async def test_change_refs_are_limited_by_position_and_caller_vectors(log: Log) -> None:
    await log.write(
        new_message("x"),
        new_message("y", message_id="b")._replace(embedding=b"\0\0\x80?"),
        new_message("z", message_id="c"),
    )
    await log.writer.delete("u", ["c"])

    def touched(after: int, until: int, *, with_vectors: bool = False) -> list[tuple[int, str]]:
        changes = log.feed.read_change_refs(
            FeedPosition.from_sequence(after), FeedPosition.from_sequence(until), 100, caller_vectors_only=with_vectors
        )
        return [(message.sequence, message.message_id) for message in changes.entries]

    a, b, c = (change.sequence for change in log.feed.read_changes(0, 10))
    assert touched(0, c) == [(a, "a"), (b, "b"), (c, "c")]
    assert touched(a, b) == [(b, "b")]
    assert touched(0, c - 1, with_vectors=True) == [(b, "b")]
    assert touched(0, c, with_vectors=True) == [(b, "b"), (c, "c")], "deleted messages are not listed"


async def test_message_counts_of_users_add_up_over_many_batches(log: Log) -> None:
    for batch in range(3):
        await log.write(
            *(new_message("x", message_id=f"{batch}-{n}", user=f"u{n % 600}") for n in range(batch * 300 + 300))
        )
    assert (await log.reader.count_users_and_messages("u0")).messages == 1 + 1 + 2
    assert await log.reader.count_users_and_messages("u599") == LogCounts(
        await log.reader.read_user_sequence("u599"), 1 + 1, 1
    )
    assert (await log.reader.count_users_and_messages(None)).messages == 1800


async def test_the_sequence_continues_after_a_restart(engine: Engine, tmp_path: Path) -> None:
    first = await engine(tmp_path)
    await first.write(new_message("x"))
    await first.writer.delete("u", ["a"])
    until_then = await first.reader.read_sequence()
    await first.close()
    second = await engine(tmp_path)
    assert await second.reader.read_sequence() == until_then
    await second.write(new_message("y", message_id="b"))
    assert await second.reader.read_sequence() > until_then
    await second.close()


async def test_neighbors_with_the_time_of_the_anchor_are_returned(log: Log) -> None:
    await log.write(
        *(new_message("x", message_id=name, ts_us=7) for name in "abcde"), new_message("z", message_id="z", ts_us=1)
    )
    anchor = (await log.reader.read_messages("u", ["c"]))["c"]
    ((before, after),) = await log.reader.read_neighbors([anchor], 3, 1)
    assert [message.message_id for message in before] == ["z", "a", "b"]
    assert [message.message_id for message in after] == ["d"]


entries = st.dictionaries(st.sampled_from(["app", "kind"]), st.sampled_from(["", "a", "b"]))
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
        metadata=entries,
        embedding=st.none(),
        expire_us=st.sampled_from([None, None, LONG_AGO, LATER]),
        is_undated=st.just(False),  # noqa: FBT003 - the value itself
        retracts=st.lists(st.text("aé中😀", min_size=1, max_size=3), max_size=2, unique=True).map(tuple),
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
    exclude_conversation_ids=st.lists(st.sampled_from(["c", "d", "e"]), max_size=2, unique=True).map(tuple),
    metadata=entries.map(lambda chosen: tuple(sorted(chosen.items()))),
)


def oracle(stored: list[Message], user: str, message_filter: Filter) -> list[Message]:
    return sorted(
        (
            m
            for m in stored
            if m.user_id == user
            and (message_filter.since_us is None or m.ts_us >= message_filter.since_us)
            and (message_filter.until_us is None or m.ts_us < message_filter.until_us)
            and message_filter.role in (None, m.role)
            and message_filter.conversation_id in ("", m.conversation_id)
            and m.conversation_id not in message_filter.exclude_conversation_ids
            and m.expire_us != LONG_AGO
            and set(message_filter.metadata) <= set(m.metadata.items())
        ),
        key=lambda m: (m.ts_us, m.message_id),
        reverse=True,
    )


@given(stored=messages, message_filter=filters, size=st.integers(1, 5), late=messages)
async def test_pages_equal_brute_force_during_writes(
    log: Log, *, stored: list[Message], message_filter: Filter, size: int, late: list[Message]
) -> None:
    await log.erase("u", "v")  # the messages of the previous example
    await log.write(*stored)
    pinned, before, walked = await log.reader.read_sequence(), None, list[Message]()
    while page := await log.reader.read_page("u", message_filter, before=before, pinned=pinned, limit=size):
        walked += decoded(page)
        before = MessagePosition(page[-1].ts_us, page[-1].message_id)
        await log.write(*late, on_conflict=OnConflict.SKIP)
    assert walked == oracle(stored, "u", message_filter)
