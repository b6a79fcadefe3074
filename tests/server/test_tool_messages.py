"""Tests for tool messages in writes, searches and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

VECTOR = (1.0, 0.0, 0.0, 0.0)
TOOL = m.Filter(role=m.ROLE_TOOL)


def test_every_read_returns_tool_messages_unchanged(vector_server: Server, user: str) -> None:
    answer = new_message(
        user, "t", "the ferry leaves at nine", 2, m.ROLE_TOOL, name="timetable", metadata={"tool_call_id": "c1"}
    )
    talk = [
        new_message(user, "u", "when does the ferry leave?", 1, embedding=VECTOR),
        m.ChatMessage(embedding=VECTOR),
        new_message(user, "a", "the ferry leaves at nine", 3, m.ROLE_ASSISTANT, embedding=VECTOR),
    ]
    talk[1].MergeFrom(answer)
    token = vector_server.ingest.WriteMessages(i.WriteMessagesRequest(messages=talk)).write_token
    query = vector_server.query

    listed = query.ListMessages(q.ListMessagesRequest(user_id=user, filter=TOOL, at_least=token))
    assert list(listed.items) == [answer]
    for text in ("", "ferry", '"leaves at" AND nine'):
        response = query.LexicalSearch(
            q.LexicalSearchRequest(user_id=user, query_text=text, filter=TOOL, at_least=token)
        )
        assert list(response.items) == [answer]
    near = query.SemanticSearch(
        q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=VECTOR), filter=TOOL, at_least=token)
    )
    assert [item.message for item in near.items] == [answer]
    both = query.HybridSearch(q.HybridSearchRequest(user_id=user, query_text="ferry", filter=TOOL, at_least=token))
    assert [item.message for item in both.items] == [answer]
    around = query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="a", before=1))
    assert ids(around.items) == ["t", "a"]
    assert around.items[0] == answer
    assert list(query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=user, message_ids=["t"])).items) == [answer]


def test_tool_names_are_not_sender_names(vector_server: Server, user: str) -> None:
    """If only tools have names, first-person questions still rank user messages first."""
    talk = [
        new_message(user, "mine", "I am allergic to peanuts", 1),
        *(
            new_message(user, f"t{n}", f"allergic to peanuts, result {n}", 2 + n, m.ROLE_TOOL, name="search")
            for n in range(5)
        ),
    ]
    token = vector_server.ingest.WriteMessages(i.WriteMessagesRequest(messages=talk)).write_token
    answer = vector_server.query.HybridSearch(
        q.HybridSearchRequest(user_id=user, query_text="What am I allergic to?", at_least=token)
    )
    assert ids(item.message for item in answer.items)[0] == "mine"
