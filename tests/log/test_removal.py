"""Deletions by filter and erasures of users are atomic and appear in the change feed."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from log.engine import Log
from log.test_message_log import filters, messages, new_message, oracle

from nomemory.server.message import Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.store.results import WriteOutcome

VECTOR = b"\0\0\x80?"
NARROWING = {
    "since_us": 5,
    "until_us": 5,
    "role": Role.ASSISTANT,
    "conversation_id": "c",
    "metadata": (("app", "phone"),),
    "exclude_conversation_ids": ("c",),
}
"""For each filter field, a value that matches one of the two messages below."""


@pytest.mark.parametrize("field", [field.name for field in fields(Filter)])
async def test_every_filter_field_restricts_a_deletion(log: Log, field: str) -> None:
    first = new_message("x", message_id="a", ts_us=1)
    second = Message("u", "b", 9, Role.ASSISTANT, "y", conversation_id="c", metadata={"app": "phone"})
    await log.write(first, second)
    message_filter = Filter(**{field: NARROWING[field]})  # type: ignore[arg-type]  # a value of that field
    assert (await log.writer.delete_matching("u", message_filter)).deleted == 1
    assert await log.everything() == ([second] if message_filter.admits(first) else [first])


@given(stored=messages, message_filter=filters)
async def test_a_deletion_keeps_messages_outside_its_filter(
    log: Log, *, stored: list[Message], message_filter: Filter
) -> None:
    await log.erase("u", "v")  # the messages of the previous example
    await log.write(*stored)
    deleted = (await log.writer.delete_matching("u", message_filter)).deleted
    rest = await log.everything()
    assert (await log.reader.count_users_and_messages("u")).messages == len(rest)
    gone = oracle(stored, "u", message_filter)
    assert deleted == len(gone)
    assert rest == [message for message in oracle(stored, "u", EVERYTHING) if message not in gone]
    assert await log.everything("v") == oracle(stored, "v", EVERYTHING)


async def test_the_feed_has_every_message_that_a_filter_deleted(log: Log) -> None:
    await log.write(*(new_message("x", message_id=f"m{n}", ts_us=n)._replace(embedding=VECTOR) for n in range(5)))
    deleted = await log.writer.delete_matching("u", Filter(since_us=2))
    feed = log.feed.read_changes(0, 100)
    assert [(message.message_id, message.removed_sequence) for message in feed if message.removed_sequence] == [
        ("m2", 3), ("m3", 4), ("m4", 5)
    ]  # fmt: skip
    assert len({message.sequence for message in feed}) == 5
    assert deleted.sequence == max(message.sequence for message in feed) == await log.reader.read_user_sequence("u")
    assert set(log.feed.read_embeddings("u", [f"m{n}" for n in range(5)])) == {"m0", "m1"}


async def test_an_erasure_deletes_all_messages_of_one_user_only(log: Log) -> None:
    named = await log.write_nameless(new_message("x")._replace(embedding=VECTOR), request_id="r")
    await log.write(new_message("y", user="v")._replace(embedding=VECTOR))
    erased = await log.writer.erase("u")
    assert (erased.deleted, erased.was_known) == (1, True)
    assert await log.everything() == []
    assert log.feed.read_embeddings("u", named.message_ids) == {}
    assert (await log.reader.count_users_and_messages("u")).messages == 0
    assert len(await log.everything("v")) == 1
    assert log.feed.read_embeddings("v", ["a"]) == {"a": VECTOR}
    again = await log.write_nameless(new_message("x"), request_id="r")
    assert again.outcomes == (WriteOutcome.CREATED,)
    assert again.message_ids > named.message_ids


async def test_erasing_a_missing_user_is_not_an_error(log: Log) -> None:
    await log.write(new_message("x"))
    first = await log.writer.erase("u")
    assert await log.writer.erase("u") == type(first)(0, first.sequence, was_known=True)
    nobody = await log.writer.erase("nobody")
    assert (nobody.deleted, nobody.was_known) == (0, False)
    assert nobody.sequence <= first.sequence
