"""Tests that ListConversations equals a brute-force listing during changes between pages."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.lifecycle import (
    conversation_pages,
    delete,
    write,
)

from chat_messages import new_message
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs


def conversations_by_brute_force(messages: list[m.ChatMessage]) -> list[tuple[str, float, float, int]]:
    """Return the conversations in the order of the contract: id, first and last second, count."""
    times: dict[str, list[float]] = {}
    for message in messages:
        if message.conversation_id:
            times.setdefault(message.conversation_id, []).append(message.ts.seconds)
    summaries = [(name, min(timestamps), max(timestamps), len(timestamps)) for name, timestamps in times.items()]
    return sorted(summaries, key=lambda summary: (summary[2], summary[0]), reverse=True)


def as_tuple(conversation: q.Conversation) -> tuple[str, float, float, int]:
    return (
        conversation.conversation_id,
        conversation.first_ts.seconds,
        conversation.last_ts.seconds,
        conversation.message_count,
    )


interleaved = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c", "谈", "e😀", "f"]), st.integers(0, 6)), min_size=1, max_size=30
)


@given(talk=interleaved, size=st.integers(1, 8))
def test_conversations_equal_brute_force_results(vector_server: Server, talk: list[tuple[str, int]], size: int) -> None:
    user = f"user-{uuid.uuid4().hex}"
    messages = [new_message(user, f"m{n}", "x", ts, conversation_id=name) for n, (name, ts) in enumerate(talk)]
    write(vector_server, [*messages, new_message(f"{user}-other", "m0", "x", 99, conversation_id="a")])
    pages = list(conversation_pages(vector_server, user, size))
    assert [as_tuple(item) for page in pages for item in page] == conversations_by_brute_force(messages)
    assert all(len(page) == size for page in pages[:-1])


@given(talk=interleaved, size=st.integers(1, 3), seed=st.integers(0, 10_000))
def test_conversations_are_listed_once_during_changes(
    vector_server: Server, talk: list[tuple[str, int]], size: int, seed: int
) -> None:
    user, draw = f"user-{uuid.uuid4().hex}", random.Random(seed)  # noqa: S311 - seeded
    there = {f"m{n}": new_message(user, f"m{n}", "x", ts, conversation_id=name) for n, (name, ts) in enumerate(talk)}
    write(vector_server, list(there.values()))
    begun, walked = {name for name, *_ in conversations_by_brute_force(list(there.values()))}, list[str]()
    for turn, page in enumerate(conversation_pages(vector_server, user, size)):
        as_it_is = {name: rest for name, *rest in conversations_by_brute_force(list(there.values()))}
        for item in page:
            assert list(as_tuple(item)[1:]) == as_it_is[item.conversation_id]
        walked += [item.conversation_id for item in page]
        for change in ("replaced", "deleted"):
            for message_id in draw.sample(sorted(there), min(len(there), 3)):
                del there[message_id]
                if change == "deleted":
                    delete(vector_server, user, [message_id])
                else:
                    write(vector_server, [new_message(user, message_id, "y", 99, conversation_id="new")], replace=True)
        write(vector_server, [new_message(user, f"late{turn}", "x", 99, conversation_id=draw.choice("abz"))])
    left = {name for name, *_ in conversations_by_brute_force(list(there.values()))}
    assert len(walked) == len(set(walked))
    assert left <= set(walked) <= begun


def test_listed_conversation_is_not_repeated_when_its_latest_message_is_deleted(
    vector_server: Server, user: str
) -> None:
    times = {"a": [1, 9], "b": [2, 8], "c": [0, 7], "d": [5, 6]}
    write(
        vector_server,
        [
            new_message(user, f"{name}{ts}", "x", ts, conversation_id=name)
            for name, said_at in times.items()
            for ts in said_at
        ],
    )
    walked = []
    for page in conversation_pages(vector_server, user, 1):
        walked += [(item.conversation_id, item.message_count) for item in page]
        delete(vector_server, user, ["a9", "b8", "d6"])
    assert walked == [("a", 2), ("c", 2), ("d", 1), ("b", 1)]


def test_cursor_supports_4000_interleaved_conversations(vector_server: Server, user: str) -> None:
    ends = [(name, ts) for name in range(4000) for ts in (name, 10_000 + name)]
    messages = [new_message(user, f"m{name}-{ts}", "x", ts, conversation_id=f"c{name}") for name, ts in ends]
    for at in range(0, len(messages), 1000):
        write(vector_server, messages[at : at + 1000])
    conversation_ids = [item.conversation_id for page in conversation_pages(vector_server, user, 500) for item in page]
    assert conversation_ids == [f"c{name}" for name in reversed(range(4000))]
