"""Tests that expired messages are hidden at their expiry time and deleted soon afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import grpc
import pytest
from server.fleet import until

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

Start = Callable[[Settings], AbstractContextManager["Server"]]

VECTOR = (1.0, 0.0, 0.0, 0.0)
DAY_S = 86_400.0


def expiring(message: m.ChatMessage, at_s: float) -> m.ChatMessage:
    """Set the expiry time of a message, in seconds since the epoch."""
    message.expire_ts.FromMicroseconds(round(at_s * 1_000_000))
    return message


def write(server: Server, *messages: m.ChatMessage, replace: bool = False) -> i.WriteMessagesResponse:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, replace=replace))


def found_by_every_read(server: Server, user: str, anchor: str, token: str = "") -> dict[str, list[str]]:
    """Return the sorted ids after checking that every read returns the same."""
    query = server.query
    vector = q.Embedding(values=VECTOR)
    ids_by_read = {
        "list": ids(query.ListMessages(q.ListMessagesRequest(user_id=user)).items),
        "filter": ids(
            query.ListMessages(q.ListMessagesRequest(user_id=user, filter=m.Filter(conversation_id="c"))).items
        ),
        "words": ids(query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text="tea", at_least=token)).items),
        "no words": ids(query.LexicalSearch(q.LexicalSearchRequest(user_id=user)).items),
        "meaning": ids(
            item.message
            for item in query.SemanticSearch(
                q.SemanticSearchRequest(user_id=user, query_embedding=vector, at_least=token)
            ).items
        ),
        "hybrid": ids(
            item.message
            for item in query.HybridSearch(
                q.HybridSearchRequest(user_id=user, query_text="tea?", query_embedding=vector, at_least=token)
            ).items
        ),
        "neighbours": ids(
            query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id=anchor, before=9, after=9)).items
        ),
        "ids": ids(query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=user, message_ids=["a", "b", "c"])).items),
    }
    return {read: sorted(some) for read, some in ids_by_read.items()}


def count(server: Server, user: str) -> int:
    return server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id=user)).log.messages


def tea(user: str, message_id: str, ts: float) -> m.ChatMessage:
    return new_message(user, message_id, f"tea {message_id}", ts=ts, conversation_id="c", embedding=VECTOR)


def wait_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.time()) + 0.01)


def test_message_is_hidden_from_every_read_at_its_expiry_time(start: Start, own_settings: Settings, user: str) -> None:
    with start(own_settings.copy_with_changes(retention_sweep_interval_s=3600.0)) as server:
        at_s = time.time() + 3.0
        written = write(server, tea(user, "a", 1), expiring(tea(user, "b", 2), at_s), tea(user, "c", 3))
        before = found_by_every_read(server, user, "a", written.write_token)  # also fills every cache
        assert time.time() < at_s, "this machine is too slow for this test"
        assert set(map(tuple, before.values())) == {("a", "b", "c")}
        wait_until(at_s)
        after = found_by_every_read(server, user, "a")
        assert set(map(tuple, after.values())) == {("a", "c")}
        assert count(server, user) == 2
        with pytest.raises(grpc.RpcError) as gone:
            server.query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="b"))
        assert gone.value.code() == grpc.StatusCode.NOT_FOUND
        missing = server.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=user, message_ids=["b"]))
        assert list(missing.missing_message_ids) == ["b"]


def test_expired_messages_are_deleted_from_log_and_indexes(start: Start, own_settings: Settings, user: str) -> None:
    with start(own_settings.copy_with_changes(retention_sweep_interval_s=0.05, retention_sweep_batch_size=7)) as server:
        at_s = time.time() + 0.5
        write(server, tea(user, "a", 1), *(expiring(tea(user, f"x{n}", 2), at_s) for n in range(50)))
        sequence = server.ingest.GetIndexStatus(i.GetIndexStatusRequest()).log.sequence

        def settled() -> bool:
            status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
            done = status.log.sequence == sequence + 50
            return done and status.lexical.checkpoint == status.vector.checkpoint == status.log.sequence

        assert until(settled)
        assert count(server, user) == 1
        assert found_by_every_read(server, user, "a")["hybrid"] == ["a"]


def test_maximum_age_applies_to_every_message(start: Start, own_settings: Settings, user: str) -> None:
    settings = own_settings.copy_with_changes(retention_days=10.0, retention_sweep_interval_s=3600.0)
    with start(settings) as server:
        now = time.time()
        written = write(
            server,
            tea(user, "a", now),
            tea(user, "b", now - 9 * DAY_S),
            tea(user, "c", now - 11 * DAY_S),
        )
        ids_by_read = found_by_every_read(server, user, "a", written.write_token)
        assert set(map(tuple, ids_by_read.values())) == {("a", "b")}
        assert count(server, user) == 2
    with start(settings.copy_with_changes(retention_sweep_interval_s=0.05)) as server:
        # Deletions of the sweep are changes of the log.
        assert until(lambda: server.ingest.GetIndexStatus(i.GetIndexStatusRequest()).log.sequence == 4)
        assert count(server, user) == 2


def test_expiry_time_is_returned_with_the_message(vector_server: Server, user: str) -> None:
    message = expiring(new_message(user, "a", "x"), time.time() + 1000)
    write(vector_server, message)
    assert list(vector_server.query.ListMessages(q.ListMessagesRequest(user_id=user)).items) == [message]


def test_different_expiry_is_a_conflict_unless_replaced(vector_server: Server, user: str) -> None:
    first, other = (expiring(new_message(user, "a", "x"), time.time() + later) for later in (1000, 2000))
    write(vector_server, first)
    assert write(vector_server, first).results[0].outcome == i.WRITE_OUTCOME_UNCHANGED
    for changed in (other, new_message(user, "a", "x")):
        with pytest.raises(grpc.RpcError) as refused:
            write(vector_server, changed)
        assert refusal(refused.value).reason == "MESSAGE_CONFLICT"
    assert write(vector_server, other, replace=True).results[0].outcome == i.WRITE_OUTCOME_REPLACED


def test_id_of_an_expired_message_can_be_reused(vector_server: Server, user: str) -> None:
    write(vector_server, expiring(new_message(user, "a", "x", ts=1), 2))
    assert write(vector_server, new_message(user, "a", "y")).results[0].outcome == i.WRITE_OUTCOME_CREATED
    assert count(vector_server, user) == 1


@pytest.mark.parametrize("at_s", [5, 4])
def test_expiry_before_the_message_time_is_rejected(vector_server: Server, user: str, at_s: float) -> None:
    with pytest.raises(grpc.RpcError) as error:
        write(
            vector_server,
            expiring(new_message(user, "a", "x", ts=5), at_s),
            expiring(new_message("", "b", "x", ts=5), at_s),
        )
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert sorted(refused.fields) == ["messages[0].expire_ts", "messages[1].expire_ts", "messages[1].user_id"]


def test_import_reports_an_expiry_before_the_message_time(vector_server: Server, user: str) -> None:
    batch = i.ImportMessagesRequest(
        messages=[expiring(new_message(user, "a", "x", ts=5), 5), new_message(user, "b", "x")]
    )
    summary = vector_server.ingest.ImportMessages(iter([batch]))
    assert (summary.created, summary.rejected) == (1, 1)
    assert list(summary.rejections[0].violations) == ["expire_ts: must be after ts"]
