"""Tests for the visibility of writes and deletions in hybrid searches and for lagging indexes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hybrid.hybrid_requests import EAST, NORTH, WEST, ask, chat, delete, result_ids, until, write
from pydantic import SecretStr

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

VECTOR = q.Embedding(values=EAST)


def test_write_is_found_lexically_and_semantically_at_once(vector_server: Server, user: str) -> None:
    for n in range(15):
        text, vector = f"parcel number {n}", (1.0, 0.0, n / 100, 0.0)
        token = write(vector_server, [new_message(user, f"m{n}", text, n, embedding=vector)])
        answer = ask(vector_server, user, "parcels", token, query_embedding=VECTOR, explain=True, top_k=50)
        assert set(result_ids(answer)) == {f"m{k}" for k in range(n + 1)}
        assert not answer.index_lagging
        assert all(item.explanation.semantic_score > 0.9 for item in answer.items)
        assert all(item.explanation.lexical_score > 0 for item in answer.items)


def test_deleted_message_is_not_returned(vector_server: Server, user: str) -> None:
    messages = [new_message(user, f"m{n}", "tea", n, embedding=(1.0, n / 10, 0.0, 0.0)) for n in range(6)]
    ask(vector_server, user, "tea", write(vector_server, messages), query_embedding=VECTOR)
    for n in range(6):
        delete(vector_server, user, f"m{n}")
        answer = ask(vector_server, user, "tea", query_embedding=VECTOR)
        assert set(result_ids(answer)) == {f"m{k}" for k in range(n + 1, 6)}
        if answer.items:
            assert answer.items[0].score >= answer.items[-1].score


def test_deleted_message_does_not_affect_the_ranking(vector_server: Server, user: str) -> None:
    """The deleted message is the most similar one, and the vector index may still contain it."""
    kept = [
        new_message(user, "near", "one", 1, embedding=(1.0, 0.5, 0.0, 0.0)),
        new_message(user, "far", "two", 2, embedding=WEST),
    ]
    token = write(vector_server, kept)
    alone = ask(vector_server, user, "tea", token, query_embedding=VECTOR)
    token = write(vector_server, [new_message(user, "best", "tea", 3, embedding=EAST)])
    assert result_ids(ask(vector_server, user, "tea", token, query_embedding=VECTOR))[0] == "best"
    delete(vector_server, user, "best")
    answer = ask(vector_server, user, "tea", query_embedding=VECTOR)
    assert answer.items == alone.items


def test_replaced_message_is_not_found_by_its_old_content(vector_server: Server, user: str) -> None:
    ask(vector_server, user, "tea", write(vector_server, [new_message(user, "a", "tea", 1, embedding=EAST)]))
    replaced = [new_message(user, "a", "coffee", 1, embedding=NORTH)]
    token = write(vector_server, replaced, replace=True)
    assert not ask(vector_server, user, "tea").items
    answer = ask(vector_server, user, "coffee", token, query_embedding=VECTOR, explain=True)
    assert [item.message.content for item in answer.items] == ["coffee"]
    assert answer.items[0].explanation.semantic_score == pytest.approx(0, abs=1e-6)


def test_follow_up_scores_are_updated_after_writes_and_deletions(vector_server: Server, user: str) -> None:
    talk = chat(user, 20, conversation_id="c")
    talk[10].content = "Where did you put the ladder?"
    talk[11].content = "Behind the shed, next to the ladder rack."
    token = write(vector_server, talk)

    def worth(token: str = "") -> dict[str, float]:
        answer = ask(vector_server, user, "ladder", token, explain=True)
        parts = {item.message.message_id: item.explanation.components for item in answer.items}
        return {part.name: part.value for part in parts["talk00011"]}

    assert worth(token)["answers"] > 0
    assert "answers" not in worth(delete(vector_server, user, "talk00010"))
    assert worth(write(vector_server, [talk[10]]))["answers"] > 0


@pytest.fixture
def stuck(own_settings: Settings) -> Settings:
    """Settings of a server whose embedder never answers."""
    update = {
        "embedder": "openai",
        "embedding_model": "absent",
        "openai_base_url": "http://127.0.0.1:9/v1",
        "openai_api_key": SecretStr("none"),
    }
    return own_settings.copy_with_changes(**update)


def test_lexical_ranking_is_used_if_the_embedder_does_not_respond(
    start: Callable[[Settings], AbstractContextManager[Server]], stuck: Settings
) -> None:
    with start(stuck) as server:
        token = write(server, [new_message("u", "a", "green tea", 1), new_message("u", "b", "coffee", 2)])
        answer = ask(server, "u", "tea")
        while not answer.items:  # the lexical index lags behind the write
            answer = ask(server, "u", "tea")
        assert result_ids(answer) == ["a"]
        assert answer.semantic_unavailable
        assert answer.index_lagging
        assert not answer.embedding_model
        assert 0 <= answer.sufficiency <= 1
        response = ask(server, "u", "tea", query_embedding=VECTOR)
        assert (response.semantic_unavailable, response.embedding_model) == (False, "absent")
        request = q.HybridSearchRequest(user_id="u", query_text="tea", at_least=token)
        with pytest.raises(grpc.RpcError) as error:
            server.query.HybridSearch(request, timeout=0.5)
        assert refusal(error.value).reason == "INDEX_LAGGING"


def test_hanging_embedder_uses_at_most_half_of_the_deadline(
    start: Callable[[Settings], AbstractContextManager[Server]], stuck: Settings, silent_endpoint: str
) -> None:
    with start(stuck.copy_with_changes(openai_base_url=silent_endpoint, embedding_timeout_s=2.0)) as server:
        write(server, [new_message("u", "a", "green tea", 1)])
        while not ask(server, "u", "tea", query_embedding=VECTOR).items:
            time.sleep(0.01)
        began = time.monotonic()
        request = q.HybridSearchRequest(user_id="u", query_text="tea")
        answer = server.query.HybridSearch(request, timeout=1)
        assert time.monotonic() - began < 0.95
        assert result_ids(answer) == ["a"]
        assert answer.semantic_unavailable


def test_lexical_ranking_is_used_without_the_vector_index(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    nobody = own_settings.copy_with_changes(qdrant_url="http://127.0.0.1:9", vector_timeout_s=1.0)
    with start(nobody) as server:
        write(server, [new_message("u", "a", "green tea", 1)])
        answer = ask(server, "u", "tea", query_embedding=VECTOR)
        while not answer.items:
            answer = ask(server, "u", "tea", query_embedding=VECTOR)
        assert (result_ids(answer), answer.semantic_unavailable) == (["a"], True)


def test_query_times_at_the_calendar_limits_are_answered(vector_server: Server, user: str) -> None:
    token = write(vector_server, [new_message(user, "a", "the party", 5)])
    first, last_moment = -62_135_596_800, m.Filter()
    last_moment.time_range.until.CopyFrom(Timestamp(seconds=253_402_300_799, nanos=999_999_999))
    for text in ("Was there a party last year?", "去年的聚会呢？", "party yesterday", "上周 party", "party in 2020"):
        assert not ask(vector_server, user, text, token, filter=until(first)).items
        assert result_ids(ask(vector_server, user, text, filter=last_moment)) in (["a"], [])
