"""Tests that messages of one user neither appear in nor affect the results of another."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server.fleet import until

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

EAST = (1.0, 0.0, 0.0, 0.0)
QUERIES = ["火锅", "火锅 tea", '"不吃辣" OR run', "NOT tea", "the 火锅 running", ""]


def write(server: Server, messages: list[m.ChatMessage]) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token


def seen(server: Server, user: str, token: str) -> list[object]:
    messages = [
        server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text=query, at_least=token))
        for query in QUERIES
    ]
    near = server.query.SemanticSearch(
        q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=EAST), top_k=200, at_least=token)
    )
    return [(ids(item.items), [(scored.message_id, scored.score) for scored in item.scores]) for item in messages] + [
        near.items
    ]


def test_writes_of_another_user_change_neither_scores_nor_order(vector_server: Server, user: str) -> None:
    mine = [
        new_message(user, f"m{n}", text, ts=n, embedding=(1.0, n, 0.0, 0.0))
        for n, text in enumerate(["火锅 tea", "火锅", "tea run", "我不吃辣", "running the run", "火锅 火锅 tea"])
    ]
    before = seen(vector_server, user, write(vector_server, mine))
    other = f"{user}-other"
    flood = [new_message(other, f"x{n}", "火锅 tea run 我不吃辣 the", ts=n, embedding=EAST) for n in range(200)]
    assert seen(vector_server, user, write(vector_server, flood)) == before
    gone = vector_server.ingest.DeleteMessages(
        i.DeleteMessagesRequest(user_id=other, message_ids=[f"x{n}" for n in range(100)])
    )
    assert seen(vector_server, user, gone.write_token) == before


awkward_users = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda name: name.strip()
)


@given(names=st.lists(awkward_users, min_size=2, max_size=4, unique=True))
@settings(max_examples=15)
def test_users_with_unusual_ids_see_only_their_messages(vector_server: Server, names: list[str]) -> None:
    mark = uuid.uuid4().hex[:8]
    users = [f"{mark}{name}" for name in names]
    token = write(
        vector_server, [new_message(user, "same-id", f"word of {n}", embedding=EAST) for n, user in enumerate(users)]
    )
    for n, user in enumerate(users):
        messages = [new_message(user, "same-id", f"word of {n}")]
        query = vector_server.query
        assert list(query.ListMessages(q.ListMessagesRequest(user_id=user)).items) == messages
        assert (
            list(query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text="word", at_least=token)).items)
            == messages
        )
        near = query.SemanticSearch(
            q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=EAST), at_least=token)
        )
        assert [item.message for item in near.items] == messages
        assert (
            list(query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="same-id", after=9)).items)
            == messages
        )


def test_user_status_counts_only_that_user(vector_server: Server, user: str) -> None:
    token = write(
        vector_server,
        [new_message(user, "a", "x"), new_message(user, "b", "x"), new_message(f"{user}-other", "c", "x")],
    )
    vector_server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text="x", at_least=token))
    request = i.GetIndexStatusRequest(user_id=user)
    # A search sees a commit of the index shortly before the indexer reports it.
    assert until(lambda: not vector_server.ingest.GetIndexStatus(request).lexical.pending)
    status = vector_server.ingest.GetIndexStatus(request)
    assert (status.log.messages, status.log.users) == (2, 1)
    nobody = vector_server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id=f"{user}-nobody"))
    assert (nobody.log.messages, nobody.log.users) == (0, 0)
