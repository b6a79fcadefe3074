"""Tests for exports: complete, resumable after any batch, and importable."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.lifecycle import (
    count,
    delete,
    export,
    exported,
    write,
)
from server.test_filtered_reads import RandomMessage, as_filter, conversations, filter_strategy, matching, stored

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from running_server import Server


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20).filter(
    lambda content: content.strip()
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=10).filter(
    lambda name: name.strip()
)


@st.composite
def anything_said(draw: st.DrawFn) -> m.ChatMessage:
    message = m.ChatMessage(
        message_id=draw(names),
        role=draw(st.sampled_from([m.ROLE_USER, m.ROLE_ASSISTANT, m.ROLE_SYSTEM])),
        content=draw(text),
        name=draw(st.just("") | names),
        conversation_id=draw(st.just("") | names),
        retracts=draw(st.lists(st.sampled_from(["not here", "nor here"]), unique=True)),
        metadata=draw(
            st.dictionaries(
                text, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=32
            )
        ),
    )
    message.ts.FromMicroseconds(draw(st.integers(-2_000_000_000_000_000, 4_000_000_000_000_000) | st.integers(0, 3)))
    return message


@given(messages=st.lists(anything_said(), max_size=14, unique_by=lambda item: item.message_id))
def test_export_returns_written_messages_and_resumes_after_any_batch(
    small_batches: Server, messages: list[m.ChatMessage]
) -> None:
    user = f"user-{uuid.uuid4().hex}"
    for message in messages:
        message.user_id = user
    for at in range(0, len(messages), 3):
        write(small_batches, messages[at : at + 3])
    write(small_batches, [new_message(f"{user}-other", "m", "x")])
    batches = export(small_batches, user)
    assert exported(batches) == sorted(messages, key=lambda item: (item.ts.ToMicroseconds(), item.message_id))
    assert all(0 < len(batch.messages) <= 3 for batch in batches if messages)
    for index, batch in enumerate(batches[:-1]):
        assert exported(export(small_batches, user, batch.next_cursor)) == exported(batches[index + 1 :])
    assert [not batch.next_cursor for batch in batches] == [False] * (len(batches) - 1) + [True]


def test_export_of_an_unknown_user_ends_normally(vector_server: Server, user: str) -> None:
    assert export(vector_server, user) == [q.ExportMessagesResponse()]


@given(conversation=conversations, filter_values=filter_strategy)
def test_export_applies_its_filter(
    small_batches: Server, conversation: list[RandomMessage], filter_values: dict[str, Any]
) -> None:
    user = f"user-{uuid.uuid4().hex}"
    stored(small_batches, user, conversation[:3])
    stored(small_batches, user, conversation[3:6])
    request = q.ExportMessagesRequest(user_id=user, filter=as_filter(filter_values))
    batches = list(small_batches.query.ExportMessages(request))
    assert ids(exported(batches)) == [item.message_id for item in matching(conversation[:6], filter_values)][::-1]


def test_writes_during_an_export_do_not_affect_it(small_batches: Server, user: str) -> None:
    for n in range(12):
        write(small_batches, [new_message(user, f"m{n:02}", "x", ts=n)])
    exported, cursor = list[str](), ""
    for turn in range(4):
        stream = small_batches.query.ExportMessages(q.ExportMessagesRequest(user_id=user, cursor=cursor))
        batch = next(stream)
        stream.cancel()
        exported, cursor = exported + ids(batch.messages), batch.next_cursor
        write(
            small_batches,
            [new_message(user, f"late{turn}", "x", ts=20), new_message(user, f"early{turn}", "x", ts=turn)],
        )
        write(small_batches, [new_message(user, "m10", "y", ts=10)], replace=True)
        delete(small_batches, user, ["m07"])
    assert (exported, cursor) == ([f"m{n:02}" for n in range(12) if n not in (7, 10)], "")


def test_import_accepts_exported_batches_unchanged(
    vector_server: Server,
    start: Callable[[Settings], AbstractContextManager[Server]],
    own_settings: Settings,
    user: str,
) -> None:
    for at in range(0, 1500, 500):
        write(vector_server, [new_message(user, f"m{n:05}", "好" * 700, ts=n, name="Ann") for n in range(at, at + 500)])
    batches = export(vector_server, user)
    assert all(len(batch.messages) <= 1000 and batch.ByteSize() < 3_200_000 for batch in batches)
    with start(own_settings) as empty:
        done = empty.ingest.ImportMessages(i.ImportMessagesRequest(messages=batch.messages) for batch in batches)
        assert (done.created, done.rejected) == (1500, 0)
        assert exported(export(empty, user)) == exported(batches)


def test_export_without_a_client_deadline_has_the_import_deadline(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    with start(own_settings.copy_with_changes(default_deadline_s=1e-9)) as server:
        with pytest.raises(grpc.RpcError) as error:
            count(server, "u")
        assert refusal(error.value).reason == "DEADLINE_EXCEEDED"
        assert export(server, "u") == [q.ExportMessagesResponse()]


def test_export_stops_when_its_client_disconnects(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    with start(own_settings) as server:
        for at in range(0, 2000, 500):
            write(server, [new_message("u", f"m{n:05}", "x" * 4000, ts=n) for n in range(at, at + 500)])
        stream = server.query.ExportMessages(q.ExportMessagesRequest(user_id="u"))
        first = next(stream)
        assert count(server, "u") == 2000  # the stream is not read meanwhile
        stream.cancel()
        rest = exported(export(server, "u", first.next_cursor))
        assert len(first.messages) + len(rest) == 2000
