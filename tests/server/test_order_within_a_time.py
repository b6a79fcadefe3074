"""Tests that messages with equal times keep their write order for every way to write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

Send = Callable[[IngestServiceStub, Sequence[m.ChatMessage]], str]
"""Sends a batch; returns a write token."""


def alone(ingest: IngestServiceStub, messages: Sequence[m.ChatMessage]) -> str:
    return [ingest.WriteMessages(i.WriteMessagesRequest(messages=[message])).write_token for message in messages][-1]


def batch(ingest: IngestServiceStub, messages: Sequence[m.ChatMessage]) -> str:
    return ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token


def request(ingest: IngestServiceStub, messages: Sequence[m.ChatMessage]) -> str:
    """Send a request twice."""
    sent = i.WriteMessagesRequest(messages=messages, request_id=uuid4().hex)
    first, again = ingest.WriteMessages(sent), ingest.WriteMessages(sent)
    assert [result.message_id for result in again.results] == [result.message_id for result in first.results]
    assert {result.outcome for result in again.results} == {i.WRITE_OUTCOME_UNCHANGED}
    return again.write_token


def stream(ingest: IngestServiceStub, messages: Sequence[m.ChatMessage]) -> str:
    sent = [i.ImportMessagesRequest(messages=[message]) for message in messages]
    return ingest.ImportMessages(iter(sent)).write_token


def stream_of_requests(ingest: IngestServiceStub, messages: Sequence[m.ChatMessage]) -> str:
    """Import batches with request ids and one invalid message each, twice."""
    bad = new_message(messages[0].user_id, "", " ")
    sent = [
        i.ImportMessagesRequest(messages=[bad, *messages[:1]], request_id=uuid4().hex),
        i.ImportMessagesRequest(messages=[*messages[1:], bad], request_id=uuid4().hex),
    ]
    assert ingest.ImportMessages(iter(sent)).created == len(messages)
    again = ingest.ImportMessages(iter(sent))
    assert (again.created, again.unchanged) == (0, len(messages))
    return again.write_token


SENDS = (alone, batch, request, stream, stream_of_requests)


def by_every_read(query: QueryServiceStub, user: str, token: str) -> Iterator[list[str]]:
    """Return the contents, oldest first, from every ordered read."""
    listed = query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=500, at_least=token)).items
    yield [item.content for item in reversed(listed)]
    paged, cursor = list[str](), ""
    while True:
        page = query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=3, cursor=cursor))
        paged += [item.content for item in page.items]
        if not (cursor := page.next_cursor):
            break
    yield paged[::-1]
    around = q.GetNeighborsRequest(user_id=user, message_id=listed[-1].message_id, before=0, after=200)
    yield [item.content for item in query.GetNeighbors(around).items]
    filtered = m.Filter(role=m.ROLE_USER)
    words = q.LexicalSearchRequest(user_id=user, filter=filtered, page_size=500, at_least=token)
    yield [item.content for item in reversed(query.LexicalSearch(words).items)]


@given(batches=st.lists(st.tuples(st.sampled_from(SENDS), st.integers(1, 5)), min_size=1, max_size=6))
def test_every_read_keeps_the_write_order_of_messages_with_equal_times(
    vector_server: Server, batches: list[tuple[Send, int]]
) -> None:
    user, given_in_order = f"order-{uuid4().hex}", list[str]()
    for number, (send, size) in enumerate(batches):
        some = [f"word {number} {n}" for n in range(size)]
        token = send(vector_server.ingest, [new_message(user, "", content, ts=7) for content in some])
        given_in_order += some
    for contents in by_every_read(vector_server.query, user, token):
        assert contents == given_in_order


def test_order_is_kept_after_a_restart(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings, user: str
) -> None:
    for life in range(3):
        with start(own_settings) as server:
            for send in (batch, request):
                send(server.ingest, [new_message(user, "", f"{life} {send.__name__} {n}") for n in range(3)])
            listed = server.query.ListMessages(q.ListMessagesRequest(user_id=user)).items
    expected = [f"{life} {name} {n}" for life in range(3) for name in ("batch", "request") for n in range(3)]
    assert [item.content for item in reversed(listed)] == expected
