"""Tests for writes: idempotent retries, atomic batches, and imports that skip invalid messages."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.error_reason_pb2 import ErrorReason
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

CREATED, UNCHANGED, REPLACED = i.WRITE_OUTCOME_CREATED, i.WRITE_OUTCOME_UNCHANGED, i.WRITE_OUTCOME_REPLACED


def write(server: Server, *messages: m.ChatMessage, **fields: object) -> i.WriteMessagesResponse:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, **fields))  # type: ignore[arg-type]


def everything(server: Server, user: str) -> list[m.ChatMessage]:
    return list(server.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=500)).items)


def test_message_round_trip_keeps_all_fields(vector_server: Server, user: str) -> None:
    message = new_message(user, "a", "你好 <b>\n😀", ts=1.5, name="Lin", conversation_id="c", metadata={"k": "v"})
    message.ts.nanos += 999
    write(vector_server, message)
    message.ts.nanos -= 999
    assert everything(vector_server, user) == [message]


def test_retried_batch_is_stored_once(vector_server: Server, user: str) -> None:
    messages = [new_message(user, "", "one"), new_message(user, "", "one"), new_message(user, "", "two")]
    first = write(vector_server, *messages, request_id="r-1")
    again = write(vector_server, *messages, request_id="r-1")
    assert [result.outcome for result in first.results] == [CREATED] * 3
    assert [result.outcome for result in again.results] == [UNCHANGED] * 3
    assert [result.message_id for result in first.results] == [result.message_id for result in again.results]
    assert len(everything(vector_server, user)) == 3


def test_generated_ids_are_ulids_and_differ_between_requests(vector_server: Server, user: str) -> None:
    made = [
        result.message_id
        for fields in ({}, {}, {"request_id": "r-1"}, {"request_id": "r-2"})
        for result in write(vector_server, new_message(user, "", "x"), **fields).results
    ]
    assert len(set(made)) == 4
    assert all(re.fullmatch(r"m_[0-7][0-9A-HJKMNP-TV-Z]{25}", item) for item in made)


def test_request_id_reused_for_another_request_is_rejected(vector_server: Server, user: str) -> None:
    write(vector_server, new_message(user, "", "one"), request_id="r-1")
    with pytest.raises(grpc.RpcError) as error:
        write(vector_server, new_message(user, "", "two"), request_id="r-1")
    assert refusal(error.value).reason == "MESSAGE_CONFLICT"


def undated(user: str, message_id: str, content: str, **fields: object) -> m.ChatMessage:
    message = new_message(user, message_id, content, **fields)  # type: ignore[arg-type]
    message.ClearField("ts")
    return message


def test_message_without_a_time_gets_the_receipt_time(vector_server: Server, user: str) -> None:
    before = time.time()
    write(vector_server, undated(user, "z", "one"), undated(user, "", "two"), new_message(user, "a", "old", ts=7))
    write(vector_server, undated(user, "a2", "three"))
    stored = everything(vector_server, user)[::-1]
    assert [message.content for message in stored] == ["old", "one", "two", "three"], (
        "the order in which they were given"
    )
    assert all(before - 1 < message.ts.ToMicroseconds() / 1e6 < time.time() + 1 for message in stored[1:])


def test_resending_a_message_without_a_time_changes_nothing(vector_server: Server, user: str) -> None:
    batch = [undated(user, "a", "one"), undated(user, "", "two"), undated(user, "a", "one")]
    first = write(vector_server, *batch, request_id="r-1")
    stored = everything(vector_server, user)
    again = write(vector_server, *batch, request_id="r-1")
    assert [result.outcome for result in first.results] == [CREATED, CREATED, UNCHANGED]
    assert [result.outcome for result in again.results] == [UNCHANGED] * 3
    imported = vector_server.ingest.ImportMessages(iter([i.ImportMessagesRequest(messages=batch, request_id="r-1")]))
    assert (imported.unchanged, imported.rejected) == (3, 0)
    assert everything(vector_server, user) == stored


def test_message_without_a_time_equals_the_stored_one_unless_its_content_differs(
    vector_server: Server, user: str
) -> None:
    write(vector_server, new_message(user, "a", "one", ts=7))
    assert write(vector_server, undated(user, "a", "one")).results[0].outcome == UNCHANGED
    with pytest.raises(grpc.RpcError) as error:
        write(vector_server, undated(user, "a", "two"))
    assert refusal(error.value).fields == ["messages[0].message_id"]
    assert write(vector_server, undated(user, "a", "two"), replace=True).results[0].outcome == REPLACED
    assert [(item.content, item.ts.seconds) for item in everything(vector_server, user)] == [("two", 7)]


def test_existing_id_with_other_content_is_rejected_unless_replaced(vector_server: Server, user: str) -> None:
    write(vector_server, new_message(user, "a", "one"))
    with pytest.raises(grpc.RpcError) as error:
        write(vector_server, new_message(user, "b", "new"), new_message(user, "a", "two"))
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.ALREADY_EXISTS, "MESSAGE_CONFLICT")
    assert refused.fields == ["messages[1].message_id"]
    replaced = write(vector_server, new_message(user, "a", "two", ts=7), replace=True)
    assert [result.outcome for result in replaced.results] == [REPLACED]
    assert [(item.content, item.ts.seconds) for item in everything(vector_server, user)] == [("two", 7)]


def test_batch_can_contain_several_users(vector_server: Server, user: str) -> None:
    write(vector_server, new_message(f"{user}-a", "m", "one"), new_message(f"{user}-b", "m", "two"))
    assert [item.content for item in everything(vector_server, f"{user}-b")] == ["two"]


def test_import_stores_valid_and_reports_invalid_messages(vector_server: Server, user: str) -> None:
    write(vector_server, new_message(user, "there", "x"), new_message(user, "other", "x"))

    def stream() -> Iterator[i.ImportMessagesRequest]:
        yield i.ImportMessagesRequest(
            messages=[new_message(user, "a", "x"), new_message(user, "bad", " "), new_message(user, "there", "x")]
        )
        yield i.ImportMessagesRequest(
            messages=[new_message(user, "other", "y"), new_message(user, "b", "x"), new_message("", "c", "x")]
        )
        yield i.ImportMessagesRequest(messages=[new_message(user, "other", "z")], replace=True)

    summary = vector_server.ingest.ImportMessages(stream())
    assert (summary.created, summary.unchanged, summary.replaced, summary.rejected) == (2, 1, 1, 3)
    assert [
        (rejection.index, rejection.message_id, ErrorReason.Name(rejection.reason).removeprefix("ERROR_REASON_"))
        for rejection in summary.rejections
    ] == [
        (1, "bad", "INVALID_FIELD"),
        (3, "other", "MESSAGE_CONFLICT"),
        (5, "c", "INVALID_FIELD"),
    ]
    assert list(summary.rejections[0].violations) == ["content: must not be blank"]
    assert sorted(ids(everything(vector_server, user))) == ["a", "b", "other", "there"]
    seen = vector_server.query.LexicalSearch(
        q.LexicalSearchRequest(user_id=user, query_text="z", at_least=summary.write_token)
    )
    assert ids(seen.items) == ["other"]


def test_repeated_import_changes_nothing(vector_server: Server, user: str) -> None:
    batches = [i.ImportMessagesRequest(messages=[new_message(user, f"m{n}", "x", ts=n)]) for n in range(5)]
    assert vector_server.ingest.ImportMessages(iter(batches)).created == 5
    again = vector_server.ingest.ImportMessages(iter(batches))
    assert (again.created, again.unchanged) == (0, 5)


def test_return_fields_select_the_returned_fields(vector_server: Server, user: str) -> None:
    write(vector_server, new_message(user, "a", "x", name="N", metadata={"k": "v"}))
    mask = FieldMask(paths=["content", "metadata"])
    expected = m.ChatMessage(message_id="a", content="x", metadata={"k": "v"})
    query = vector_server.query
    assert list(query.ListMessages(q.ListMessagesRequest(user_id=user, return_fields=mask)).items) == [expected]
    around = query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="a", return_fields=mask))
    assert list(around.items) == [expected]
    got = query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=user, message_ids=["a", "a"], return_fields=mask))
    assert list(got.items) == [expected, expected]


def test_neighbors_include_the_anchor_and_messages_with_its_time(vector_server: Server, user: str) -> None:
    write(
        vector_server, *(new_message(user, name, "x", ts=5) for name in "abcde"), new_message(user, "first", "x", ts=1)
    )
    around = vector_server.query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="c", before=3, after=1))
    assert ids(around.items) == ["first", "a", "b", "c", "d"]
    assert around.anchor_index == 3
    alone = vector_server.query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="c", before=0, after=0))
    assert ids(alone.items) == ["c"]
    default = vector_server.query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="c"))
    assert ids(default.items) == ["first", "a", "b", "c"]
