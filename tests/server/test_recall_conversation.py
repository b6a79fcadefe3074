"""Tests that a recall of one conversation returns no messages of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.client import Client
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

USER = "confined-user"
EAST = (1.0, 0.0, 0.0, 0.0)
CONTENTS = ("I booked a table for dinner.", "我不吃辣。", "My deadline is Friday.", "The garden needs water.")
QUESTIONS = (
    "What did I book for dinner?",
    "我不能吃什么？",
    "What is due, and when?",
    "What did I say lately?",
    "garden",
)


MATCHING = ("What did I book for dinner?", "garden")


@pytest.fixture(scope="module")
def conversations(vector_server: Server) -> Iterator[RecallServiceStub]:
    """Three interleaved conversations with similar content."""
    messages = [
        new_message(USER, f"m{n}", CONTENTS[n % 4], ts=1_700_000_000 + n, embedding=EAST, conversation_id=f"c{n % 3}")
        for n in range(36)
    ]
    token = vector_server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token
    vector_server.query.HybridSearch(q.HybridSearchRequest(user_id=USER, query_text="x", at_least=token))
    with grpc.insecure_channel(vector_server.target) as channel:
        yield RecallServiceStub(channel)


@given(question=st.sampled_from(QUESTIONS), conversation=st.sampled_from(["c0", "c1", "c2", "c-absent"]))
def test_messages_of_another_conversation_are_not_returned(
    conversations: RecallServiceStub, question: str, conversation: str
) -> None:
    context = r.RecallContext(conversation_id=conversation)
    request = r.RecallRequest(question=question, context=context, include_trace=True)
    reply = conversations.Recall(request, metadata=(("x-user-id", USER),))
    assert {item.message.conversation_id for item in reply.evidence} <= {conversation}
    conversation_ids = {f"m{n}" for n in range(36) if f"c{n % 3}" == conversation}
    assert {message_id for step in reply.trace for message_id in step.message_ids} <= conversation_ids
    assert reply.limits.messages_considered <= len(conversation_ids)
    assert any("limited to the conversation" in note.text for note in reply.limits.notes)
    for step in reply.trace:
        if step.arguments:
            arguments = json_format.MessageToDict(step.arguments)
            filter_arguments = arguments.get("filter", {})
            assert filter_arguments.get("conversation_id", arguments.get("conversation_id")) == conversation
    assert bool(reply.evidence) is (conversation != "c-absent") or question not in MATCHING


def test_all_conversations_are_searched_without_a_conversation_id(conversations: RecallServiceStub) -> None:
    request = r.RecallRequest(question="What did I book for dinner?")
    reply = conversations.Recall(request, metadata=(("x-user-id", USER),))
    assert len({item.message.conversation_id for item in reply.evidence}) > 1


def test_client_and_stream_restrict_the_conversation(conversations: RecallServiceStub, vector_server: Server) -> None:
    assert conversations
    with Client(vector_server.target) as client:
        reply = client.recall("What did I book?", user_id=USER, conversation_id="c1")
        events = list(client.stream_recall("What did I book?", user_id=USER, conversation_id="c1"))
    for answer in (reply, events[-1].result):
        assert {item.message.conversation_id for item in answer.evidence} == {"c1"}


def test_invalid_conversation_id_is_rejected(conversations: RecallServiceStub) -> None:
    for bad in ("c" * 129, "a\nb", " "):
        request = r.RecallRequest(question="dinner", context=r.RecallContext(conversation_id=bad))
        with pytest.raises(grpc.RpcError) as error:
            conversations.Recall(request, metadata=(("x-user-id", USER),))
        assert refusal(error.value).fields == ["context.conversation_id"]


@given(
    question=st.sampled_from(QUESTIONS),
    excluded=st.lists(st.sampled_from(["c0", "c1", "c2", "c-absent"]), max_size=3),
)
def test_excluded_conversation_is_not_returned(
    conversations: RecallServiceStub, question: str, excluded: list[str]
) -> None:
    context = r.RecallContext(exclude_conversation_ids=excluded)
    request = r.RecallRequest(question=question, context=context, include_trace=True)
    reply = conversations.Recall(request, metadata=(("x-user-id", USER),))
    assert not {item.message.conversation_id for item in reply.evidence} & set(excluded)
    readable = {f"m{n}" for n in range(36) if f"c{n % 3}" not in excluded}
    assert {message_id for step in reply.trace for message_id in step.message_ids} <= readable
    assert reply.limits.messages_considered <= len(readable)
    assert bool(reply.evidence) is bool(readable) or question not in MATCHING


def test_the_client_excludes_conversations(conversations: RecallServiceStub, vector_server: Server) -> None:
    assert conversations
    with Client(vector_server.target) as client:
        reply = client.recall("What did I book?", user_id=USER, exclude_conversation_ids=["c0", "c1"])
        listed = list(client.iter_messages(USER, exclude_conversation_ids=["c0", "c1"]))
    assert {item.message.conversation_id for item in reply.evidence} == {"c2"}
    assert {message.conversation_id for message in listed} == {"c2"}
    assert len(listed) == 12


def test_every_invalid_excluded_conversation_id_is_reported(conversations: RecallServiceStub) -> None:
    context = r.RecallContext(exclude_conversation_ids=["c", "c" * 129, " "])
    with pytest.raises(grpc.RpcError) as error:
        conversations.Recall(r.RecallRequest(question="dinner", context=context), metadata=(("x-user-id", USER),))
    fields = refusal(error.value).fields
    assert fields == ["context.exclude_conversation_ids[1]", "context.exclude_conversation_ids[2]"]
