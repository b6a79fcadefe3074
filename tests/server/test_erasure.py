"""Tests for deletions by filter and erasures of users: atomic, effective in every read, and limited to the user."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

import grpc
import pytest
from server.test_expiry import count, found_by_every_read, tea, write

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], AbstractContextManager["Server"]]


def span(since: int | None = None, until: int | None = None) -> m.Filter:
    """Return a filter of a time range in seconds since the epoch."""
    message_filter = m.Filter()
    message_filter.time_range.SetInParent()
    if since is not None:
        message_filter.time_range.since.seconds = since
    if until is not None:
        message_filter.time_range.until.seconds = until
    return message_filter


@pytest.mark.parametrize(
    ("message_filter", "left"),
    [
        (span(2), ["a"]),
        (span(until=2), ["b", "c"]),
        (span(2, 3), ["a", "c"]),
        (m.Filter(role=m.ROLE_ASSISTANT), ["a", "b"]),
        (m.Filter(conversation_id="c"), ["b"]),
        (m.Filter(conversation_id="c", role=m.ROLE_USER), ["b", "c"]),
        (m.Filter(exclude_conversation_ids=["c"]), ["a", "c"]),
        (span(9), ["a", "b", "c"]),
    ],
)
def test_deletion_by_filter_removes_the_matching_messages(
    vector_server: Server, user: str, message_filter: m.Filter, left: list[str]
) -> None:
    write(
        vector_server,
        new_message(user, "a", "x", ts=1, conversation_id="c"),
        new_message(user, "b", "x", ts=2),
        new_message(user, "c", "x", ts=3, conversation_id="c", role=m.ROLE_ASSISTANT),
        new_message(f"{user}-other", "a", "x", ts=1, conversation_id="c", role=m.ROLE_ASSISTANT),
    )
    request = i.DeleteMessagesRequest(user_id=user, filter=message_filter)
    assert vector_server.ingest.DeleteMessages(request).deleted == 3 - len(left)
    assert sorted(ids(vector_server.query.ListMessages(q.ListMessagesRequest(user_id=user)).items)) == left
    assert count(vector_server, user) == len(left)
    assert count(vector_server, f"{user}-other") == 1
    assert vector_server.ingest.DeleteMessages(request).deleted == 0


@pytest.mark.parametrize(
    ("fields", "violated"),
    [
        ({}, ["filter", "message_ids"]),
        ({"message_ids": ["a"], "filter": m.Filter(role=m.ROLE_USER)}, ["filter", "message_ids"]),
        ({"filter": m.Filter()}, ["filter"]),
        ({"filter": span()}, ["filter"]),
        ({"filter": span(3, 2)}, ["filter.time_range"]),
        ({"filter": m.Filter(conversation_id="c" * 200, role=9)}, ["filter.conversation_id", "filter.role"]),  # type: ignore[arg-type]
        ({"message_ids": ["a", " "], "filter": span(3, 2), "user_id": ""},
         ["filter", "filter.time_range", "message_ids", "message_ids[1]", "user_id"]),
    ],
)  # fmt: skip
def test_deletion_requires_ids_or_a_nonempty_filter(
    vector_server: Server, user: str, fields: dict[str, object], violated: list[str]
) -> None:
    write(vector_server, new_message(user, "a", "x"))
    with pytest.raises(grpc.RpcError) as error:
        vector_server.ingest.DeleteMessages(i.DeleteMessagesRequest(**{"user_id": user, **fields}))  # type: ignore[arg-type]
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert sorted(refused.fields) == violated
    assert count(vector_server, user) == 1


def test_erased_user_is_absent_from_every_read(vector_server: Server, user: str) -> None:
    other = f"{user}-other"
    written = write(vector_server, *(tea(who, name, 1) for who in (user, other) for name in "abc"))
    found_by_every_read(vector_server, user, "a", written.write_token)
    receipt = vector_server.ingest.EraseUser(i.EraseUserRequest(user_id=user))
    assert receipt.deleted == 3
    assert receipt.HasField("erase_ts")
    assert {residue.location for residue in receipt.residues} == {
        i.STORAGE_LOCATION_MESSAGE_LOG,
        i.STORAGE_LOCATION_LEXICAL_INDEX,
        i.STORAGE_LOCATION_VECTOR_INDEX,
        i.STORAGE_LOCATION_VECTOR_BACKLOG,
    }
    within = vector_server.settings.erasure.within_s
    for item in receipt.residues:
        assert item.detail
        assert item.purge_ts.ToNanoseconds() - receipt.erase_ts.ToNanoseconds() == within * 1e9
    write(vector_server, new_message(user, "z", "an anchor", ts=9))
    ids_by_read = found_by_every_read(vector_server, user, "z", receipt.write_token)
    assert {message_id for some in ids_by_read.values() for message_id in some} <= {"z"}
    assert count(vector_server, user) == 1
    assert set(map(tuple, found_by_every_read(vector_server, other, "a").values())) == {("a", "b", "c")}


def test_erasing_a_user_without_messages_succeeds(vector_server: Server, user: str) -> None:
    nobody = vector_server.ingest.EraseUser(i.EraseUserRequest(user_id=user))
    assert (nobody.deleted, list(nobody.residues)) == (0, [])
    write(vector_server, new_message(user, "a", "x"))
    first, again = (vector_server.ingest.EraseUser(i.EraseUserRequest(user_id=user)) for _ in range(2))
    assert (first.deleted, again.deleted) == (1, 0)
    assert again.sequence == first.sequence
    assert [residue.location for residue in again.residues] == [residue.location for residue in first.residues]


def test_erasure_requires_a_user(vector_server: Server) -> None:
    with pytest.raises(grpc.RpcError) as error:
        vector_server.ingest.EraseUser(i.EraseUserRequest(user_id=" "))
    assert refusal(error.value).fields == ["user_id"]


def test_an_erased_user_has_no_rows_of_messages_embeddings_or_requests(
    start: Start, own_settings: Settings, user: str
) -> None:
    with start(own_settings) as server:
        messages = [new_message(user, "", "x", embedding=(1.0, 0.0, 0.0, 0.0))]
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, request_id="r"))
        server.ingest.EraseUser(i.EraseUserRequest(user_id=user))
    with closing(sqlite3.connect(own_settings.server.data / "log.db")) as file:
        rows = {
            table: file.execute(f"SELECT count(*) FROM {table} WHERE user_id = ?", (user,)).fetchone()[0]  # noqa: S608 - our tables
            for table in ("messages", "embeddings", "requests")
        }
    assert rows == {"messages": 0, "embeddings": 0, "requests": 0}
