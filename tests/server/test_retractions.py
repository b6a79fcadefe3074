"""Tests that every read marks retracted messages with their retraction."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import refusal
from running_server import settings_without_embedder

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], AbstractContextManager["Server"]]
VECTOR = (1.0, 0.0, 0.0, 0.0)
BOTH = {"a": "b", "b": ""}


def write(server: Server, *messages: m.ChatMessage, replaces: bool = False) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, replace=replaces)).write_token


def tea(user: str, message_id: str, *retracts: str, ts: float = 1) -> m.ChatMessage:
    return new_message(user, message_id, f"I drink tea {message_id}", ts, embedding=VECTOR, retracts=retracts)


def marks(messages: Iterable[m.ChatMessage]) -> dict[str, str]:
    return {message.message_id: message.retracted_by for message in messages}


def listed(server: Server, user: str) -> dict[str, str]:
    return marks(server.query.ListMessages(q.ListMessagesRequest(user_id=user)).items)


def read_in_every_way(server: Server, user: str, token: str = "") -> dict[str, dict[str, str]]:
    query, near = server.query, q.Embedding(values=VECTOR)
    semantic = q.SemanticSearchRequest(user_id=user, query_embedding=near, at_least=token)
    hybrid = q.HybridSearchRequest(user_id=user, query_text="tea?", query_embedding=near, at_least=token)
    words = q.LexicalSearchRequest(user_id=user, query_text="tea", at_least=token, highlight=q.HighlightOptions())
    ranked = q.LexicalSearchRequest(user_id=user, query_text="drink OR tea")
    around = q.GetNeighborsRequest(user_id=user, message_id="b", before=9, after=9)
    exported = query.ExportMessages(q.ExportMessagesRequest(user_id=user))
    return {
        "list": listed(server, user),
        "role": marks(query.ListMessages(q.ListMessagesRequest(user_id=user, filter=m.Filter(role=m.ROLE_USER))).items),
        "words": marks(query.LexicalSearch(words).items),
        "ranked words": marks(query.LexicalSearch(ranked).items),
        "no words": marks(query.LexicalSearch(q.LexicalSearchRequest(user_id=user)).items),
        "meaning": marks(item.message for item in query.SemanticSearch(semantic).items),
        "hybrid": marks(item.message for item in query.HybridSearch(hybrid).items),
        "neighbours": marks(query.GetNeighbors(around).items),
        "ids": marks(query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=user, message_ids=["a", "b"])).items),
        "export": marks(message for batch in exported for message in batch.messages),
    }


def find_reads_without_the_mark(server: Server, user: str, token: str) -> list[str]:
    """Return the reads that do not report exactly that `b` retracted `a`."""
    return [read for read, marks in read_in_every_way(server, user, token).items() if marks != BOTH]


@pytest.mark.both_logs
def test_every_read_returns_the_retraction_of_a_message(vector_server: Server, user: str) -> None:
    token = write(vector_server, tea(user, "a"), tea(user, "b", "a", ts=2))
    assert find_reads_without_the_mark(vector_server, user, token) == []
    (first,) = vector_server.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=user, message_ids=["a"])).items
    assert first == m.ChatMessage(
        message_id="a", user_id=user, role=m.ROLE_USER, content="I drink tea a", ts=first.ts, retracted_by="b"
    )


@pytest.mark.both_logs
def test_deleting_or_replacing_a_retraction_restores_the_message(vector_server: Server, user: str) -> None:
    write(vector_server, tea(user, "b", "a", ts=2), tea(user, "c", "a", ts=3))
    write(vector_server, tea(user, "a"))
    assert listed(vector_server, user) == {"c": "", "b": "", "a": "c"}
    vector_server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=["c"]))
    assert listed(vector_server, user) == {"b": "", "a": "b"}
    write(vector_server, tea(user, "b", ts=2), replaces=True)
    assert listed(vector_server, user) == {"b": "", "a": ""}


@pytest.mark.both_logs
def test_messages_of_another_user_cannot_be_retracted(vector_server: Server, user: str) -> None:
    write(vector_server, tea(user, "a"), tea(f"{user}-other", "b", "a", ts=2), tea(f"{user}-other", "c", ts=3))
    assert listed(vector_server, user) == {"a": ""}
    write(vector_server, tea(f"{user}-other", "a"))
    vector_server.ingest.EraseUser(i.EraseUserRequest(user_id=user))
    assert listed(vector_server, f"{user}-other") == {"c": "", "b": "", "a": "b"}


def test_erased_user_has_no_old_retractions_after_new_writes(vector_server: Server, user: str) -> None:
    write(vector_server, tea(user, "a"), tea(user, "b", "a", ts=2))
    vector_server.ingest.EraseUser(i.EraseUserRequest(user_id=user))
    write(vector_server, tea(user, "a"))
    assert listed(vector_server, user) == {"a": ""}


def test_field_mask_can_select_only_retraction_fields(vector_server: Server, user: str) -> None:
    write(vector_server, tea(user, "a"), tea(user, "b", "a", ts=2))
    request = q.ListMessagesRequest(user_id=user, return_fields=FieldMask(paths=["retracted_by", "retracts"]))
    assert list(vector_server.query.ListMessages(request).items) == [
        m.ChatMessage(message_id="b", retracts=["a"]),
        m.ChatMessage(message_id="a", retracted_by="b"),
    ]


def test_retracted_by_in_a_written_message_is_ignored(vector_server: Server, user: str) -> None:
    write(vector_server, tea(user, "a"))
    again = tea(user, "a")
    again.retracted_by = "made up"
    reply = vector_server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[again]))
    assert reply.results[0].outcome == i.WRITE_OUTCOME_UNCHANGED
    assert listed(vector_server, user) == {"a": ""}


def test_different_retractions_are_a_conflict(vector_server: Server, user: str) -> None:
    write(vector_server, tea(user, "b", "a"))
    with pytest.raises(grpc.RpcError) as refused:
        write(vector_server, tea(user, "b", "a", "c"))
    assert refusal(refused.value).reason == "MESSAGE_CONFLICT"


def test_every_violation_is_reported(vector_server: Server, user: str) -> None:
    wrong = [
        tea(user, "a", "x", "a"),
        tea(user, "b", "x", "x"),
        tea(user, "c", "", "y" * 129, "z\n"),
        tea(user, "d", *(f"m{n}" for n in range(33))),
        tea(user, "e", *(f"m{n}" for n in range(32))),
    ]
    with pytest.raises(grpc.RpcError) as refused:
        write(vector_server, *wrong)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal(refused.value).fields == [
        "messages[0].retracts",
        "messages[1].retracts",
        "messages[2].retracts[0]",
        "messages[2].retracts[1]",
        "messages[2].retracts[2]",
        "messages[3].retracts",
    ]


def test_import_rejects_the_message_and_stores_the_others(vector_server: Server, user: str) -> None:
    batch = i.ImportMessagesRequest(messages=[tea(user, "b", "b"), tea(user, "c", "a", ts=2), tea(user, "a")])
    reply = vector_server.ingest.ImportMessages(iter([batch]))
    assert [list(rejection.violations) for rejection in reply.rejections] == [
        ["retracts: must not contain the id of the message itself"]
    ]
    assert listed(vector_server, user) == {"c": "", "a": "c"}


def test_retractions_are_returned_over_http(tmp_path: Path, start: Start) -> None:
    settings = settings_without_embedder(tmp_path, http_listen="127.0.0.1:0")
    with start(settings) as server:
        write(server, tea("u", "a"), tea("u", "b", "a", ts=2))
        with urllib.request.urlopen(f"{server.http}/v1/users/u/messages") as reply:  # noqa: S310 - our own
            items = json.load(reply)["items"]
    assert [(item["messageId"], item.get("retracts"), item.get("retractedBy")) for item in items] == [
        ("b", ["a"], None),
        ("a", None, "b"),
    ]


def recalled(server: Server, user: str, question: str, token: str) -> r.RecallResponse:
    with grpc.insecure_channel(server.target) as channel:
        request = r.RecallRequest(question=question, at_least=token)
        reply: r.RecallResponse = RecallServiceStub(channel).Recall(request, metadata=(("x-user-id", user),))
    return reply


def test_recall_returns_and_reports_retractions(vector_server: Server, user: str) -> None:
    wrong = new_message(user, "a", "I am allergic to peanuts.", 86_400, conversation_id="old")
    right = new_message(user, "b", "I mixed that up, sorry.", 900_000, conversation_id="new", retracts=["a"])
    others = [new_message(user, f"o{n}", f"The tram was full again {n}.", 1_000_000 + n) for n in range(9)]
    token = write(vector_server, wrong, right, *others)
    reply = recalled(vector_server, user, "Am I allergic to peanuts?", token)
    shown = [(item.message.message_id, item.message.retracted_by) for item in reply.evidence]
    assert shown[:2] == [("b", ""), ("a", "b")]
    assert list(reply.evidence[0].message.retracts) == ["a"]
    view = [*reply.memory_view.preferences, *reply.memory_view.profile, *reply.memory_view.constraints]
    assert {item.citations[0].message_id: item.superseded_by for item in view} == {"b": "", "a": "b"}
    assert reply.verdict == r.VERDICT_POSSIBLE


@pytest.mark.parametrize("others", [0, 9])
def test_correction_answers_questions_about_the_corrected_message(
    vector_server: Server, user: str, others: int
) -> None:
    lyon = new_message(user, "lyon", "I live in Lyon.", 86_400)
    basel = new_message(user, "basel", "Correction: I moved to Basel.", 900_000, retracts=["lyon"])
    tram = [new_message(user, f"o{n}", f"The tram was full again {n}.", 1_000_000 + n) for n in range(others)]
    reply = recalled(vector_server, user, "Where do I live?", write(vector_server, lyon, basel, *tram))
    view = [*reply.memory_view.preferences, *reply.memory_view.profile, *reply.memory_view.constraints]
    assert reply.verdict in {r.VERDICT_POSSIBLE, r.VERDICT_SUPPORTED}
    assert [(item.citations[0].message_id, item.superseded_by) for item in view][:2] == [
        ("basel", ""),
        ("lyon", "basel"),
    ]


def test_recall_of_a_time_range_includes_later_retractions(vector_server: Server, user: str) -> None:
    wrong = new_message(user, "a", "I am allergic to peanuts.", 86_400)
    right, last = (
        new_message(user, "b", "I mixed that up.", 900_000, retracts=["a"]),
        new_message(user, "c", "Yes.", 950_000),
    )
    last.retracts.append("b")
    others = [new_message(user, f"o{n}", "I am allergic to peanuts, I said.", 80_000 + n) for n in range(5)]
    token = write(vector_server, wrong, right, last, *others)
    with grpc.insecure_channel(vector_server.target) as channel:
        request = r.RecallRequest(question="Am I allergic to peanuts?", at_least=token, include_trace=True)
        request.context.time_range.until.FromSeconds(90_000)
        reply = RecallServiceStub(channel).Recall(request, metadata=(("x-user-id", user),))
    assert "c" in [item.message.message_id for item in reply.evidence]
    reads = [step for step in reply.trace if step.thought.startswith("read the messages that retracted")]
    assert [list(step.message_ids) for step in reads] == [["b"], ["c"]]
    scores = [item.score for item in reply.evidence]
    assert scores == sorted(scores, reverse=True)


def test_conversation_recall_marks_retractions_in_other_conversations(vector_server: Server, user: str) -> None:
    wrong = new_message(user, "a", "I am allergic to peanuts.", 86_400, conversation_id="old")
    right = new_message(user, "b", "I mixed that up, sorry.", 900_000, conversation_id="new", retracts=["a"])
    token = write(vector_server, wrong, right)
    with grpc.insecure_channel(vector_server.target) as channel:
        request = r.RecallRequest(question="Am I allergic to peanuts?", at_least=token)
        request.context.conversation_id = "old"
        reply = RecallServiceStub(channel).Recall(request, metadata=(("x-user-id", user),))
    assert [(item.message.message_id, item.message.retracted_by) for item in reply.evidence] == [("a", "b")]
    assert reply.verdict == r.VERDICT_INSUFFICIENT
