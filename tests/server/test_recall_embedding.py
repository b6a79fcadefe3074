"""Tests for questions with a caller embedding on a server without an embedder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from chat_messages import new_message
from nomemory.client import Client
from nomemory.client.errors import NoMemoryError
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r

if TYPE_CHECKING:
    from running_server import Server

QUESTION = "What can I not eat?"
NORTH, EAST = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)
TALK = (("ginger", "那只橘猫睡着了", NORTH), ("nuts", "花生会让我起疹子", EAST))
WITHOUT_MEANING = "semantic search was incomplete: only lexical search was used"
BAD = pytest.mark.parametrize(
    ("vector", "why"),
    [
        ((1.0, 0.0), "expected 4 dimensions, got 2"),
        ((), "expected 4 dimensions, got 0"),
        ((0.0, 0.0, 0.0, 0.0), "must not be the zero vector"),
        ((1.0, math.nan, 0.0, 0.0), "must not contain NaN or infinity"),
    ],
    ids=["short", "empty", "zero", "nan"],
)


@pytest.fixture
def user_with_vectors(vector_server: Server, user: str) -> str:
    """A user with two Chinese messages; the questions are in English, so that no term matches."""
    messages = [
        new_message(user, message_id, content, ts=1_700_000_000 + 7_200 * index, embedding=vector)
        for index, (message_id, content, vector) in enumerate(TALK)
    ]
    token = vector_server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token
    vector_server.query.HybridSearch(q.HybridSearchRequest(user_id=user, query_text="x", at_least=token))
    return user


@pytest.fixture
def client(vector_server: Server) -> Iterator[Client]:
    with Client(vector_server.target) as connected:
        yield connected


@pytest.fixture
def elsewhere(
    vector_server: Server, start: Callable[[Settings], AbstractContextManager[Server]], tmp_path: Path
) -> Iterator[Client]:
    """A client of a recall-only server for that server."""
    alone = Settings.from_environment(
        data=tmp_path / "nothing", listen="127.0.0.1:0", recall_upstream=vector_server.target, drain_timeout_s=0.0
    )
    with start(alone) as remote, Client(remote.target) as connected:
        yield connected


def first(client: Client, user: str, vector: Sequence[float] | None) -> list[str]:
    reply = client.recall(QUESTION, user_id=user, question_embedding=vector)
    return [item.message.message_id for item in reply.evidence][:1]


def test_question_embedding_is_used_for_the_search(client: Client, user_with_vectors: str) -> None:
    assert first(client, user_with_vectors, EAST) == ["nuts"]
    assert first(client, user_with_vectors, NORTH) == ["ginger"]
    assert first(client, user_with_vectors, None) == []


def test_a_question_embedding_is_used_for_ranking_only_and_its_absence_is_noted(
    client: Client, user_with_vectors: str
) -> None:
    ranked = client.recall(QUESTION, user_id=user_with_vectors, question_embedding=EAST, include_trace=True)
    (step,) = [step for step in ranked.trace if step.tool == "hybrid_search"]
    assert list(step.message_ids) == ["nuts", "ginger"]
    assert "meaning cannot be searched" not in step.observation
    assert all("query_embedding" not in step.arguments for step in ranked.trace)
    without = client.recall(QUESTION, user_id=user_with_vectors, include_trace=True)
    assert without.limits.notes[0].text == WITHOUT_MEANING
    assert without.limits.notes[0].code == r.NOTE_CODE_SEMANTIC_INCOMPLETE


def test_stream_includes_the_embedding_search_step(client: Client, user_with_vectors: str) -> None:
    events = list(client.stream_recall(QUESTION, user_id=user_with_vectors, question_embedding=EAST))
    assert events[0].step.tool == "hybrid_search"
    assert list(events[0].step.message_ids) == ["nuts", "ginger"]
    assert events[-1].result.evidence[0].message.message_id == "nuts"


@BAD
def test_invalid_question_embedding_error_names_the_field(
    client: Client, user_with_vectors: str, vector: Sequence[float], why: str
) -> None:
    with pytest.raises(NoMemoryError) as caught:
        first(client, user_with_vectors, vector)
    refused(caught.value, why)


def test_recall_only_server_forwards_the_question_embedding(elsewhere: Client, user_with_vectors: str) -> None:
    assert first(elsewhere, user_with_vectors, EAST) == ["nuts"]


@BAD
def test_recall_only_server_rejects_embeddings_that_the_upstream_rejects(
    elsewhere: Client, user_with_vectors: str, vector: Sequence[float], why: str
) -> None:
    why = why if vector else "must not be the zero vector"
    with pytest.raises(NoMemoryError) as caught:
        first(elsewhere, user_with_vectors, vector)
    refused(caught.value, why)
    with pytest.raises(NoMemoryError) as caught:
        list(elsewhere.stream_recall(QUESTION, user_id=user_with_vectors, question_embedding=vector))
    refused(caught.value, why)


def refused(error: NoMemoryError, why: str) -> None:
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "ERROR_REASON_INVALID_FIELD")
    (violation,) = error.violations
    assert (violation.field, violation.description) == ("question_embedding.values", why)
