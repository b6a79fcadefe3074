"""Tests for the order, the number and the fields of HybridSearch results, and for invalid requests."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from hybrid.hybrid_requests import EAST, NORTH, WEST, ask, chat, result_ids, write

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs


def order(item: q.HybridItem) -> tuple[float, int, str]:
    return (item.score, item.message.ts.ToMicroseconds(), item.message.message_id)


def test_results_are_ordered_by_score_then_time_then_id(vector_server: Server, user: str) -> None:
    texts = ["tea", "tea with milk", "green tea, please", "milk", "tea", "tea"]
    times = [30, 5, 5, 9, 30, 2]
    messages = [new_message(user, f"m{n}", text, ts) for n, (text, ts) in enumerate(zip(texts, times, strict=True))]
    answer = ask(vector_server, user, "tea", write(vector_server, messages))
    assert len(answer.items) == 5
    assert list(answer.items) == sorted(answer.items, key=order, reverse=True)


def test_ties_with_equal_times_are_ordered_by_id(vector_server: Server, user: str) -> None:
    messages = [new_message(user, f"m{n}", "tea", 7, conversation_id=f"c{n}") for n in range(30)]
    answer = ask(vector_server, user, "tea", write(vector_server, messages), top_k=200)
    assert result_ids(answer) == sorted((message.message_id for message in messages), reverse=True)
    assert len({item.score for item in answer.items}) == 1


def test_rounded_scores_are_never_out_of_order(vector_server: Server, user: str) -> None:
    messages = [
        new_message(user, f"m{n:03}", "tea " + "x" * (n % 7), ts=n * 7 % 50, embedding=(1.0, n * 1e-4, 0.0, 0.0))
        for n in range(150)
    ]
    token = write(vector_server, messages)
    answer = ask(vector_server, user, "tea", token, query_embedding=q.Embedding(values=EAST), top_k=200)
    assert [order(item) for item in answer.items] == sorted(map(order, answer.items), reverse=True)


def test_top_k_defaults_to_20_and_is_at_most_200(vector_server: Server, user: str) -> None:
    token = write(vector_server, [new_message(user, f"m{n:03}", "tea", n) for n in range(250)])
    every = ask(vector_server, user, "tea", token, top_k=200)
    assert len(every.items) == 200
    assert result_ids(ask(vector_server, user, "tea")) == result_ids(every)[:20]
    assert result_ids(ask(vector_server, user, "tea", top_k=1)) == result_ids(every)[:1]
    assert not every.truncated


REFUSED = {
    "nothing": (q.HybridSearchRequest(), ["user_id", "query_text"]),
    "blank": (q.HybridSearchRequest(user_id="u", query_text=" \n\t"), ["query_text"]),
    "too long": (q.HybridSearchRequest(user_id="u" * 129, query_text="x" * 32_001), ["user_id", "query_text"]),
    "NUL": (q.HybridSearchRequest(user_id="u\0", query_text="x\0"), ["user_id", "query_text"]),
    "too many": (q.HybridSearchRequest(user_id="u", query_text="x", top_k=201), ["top_k"]),
    "negative": (q.HybridSearchRequest(user_id="u", query_text="x", top_k=-1), ["top_k"]),
    "unknown field": (
        q.HybridSearchRequest(user_id="u", query_text="x", return_fields=FieldMask(paths=["content", "embedding"])),
        ["return_fields"],
    ),
    "a vector of no length": (
        q.HybridSearchRequest(user_id="u", query_text="x", query_embedding=q.Embedding(values=[0] * 4)),
        ["query_embedding.values"],
    ),
    "a vector of another dimension": (
        q.HybridSearchRequest(user_id="u", query_text="x", query_embedding=q.Embedding(values=[1] * 5)),
        ["query_embedding.values"],
    ),
    "a vector that is not finite": (
        q.HybridSearchRequest(user_id="u", query_text="x", query_embedding=q.Embedding(values=[math.nan, 1, 1, 1])),
        ["query_embedding.values"],
    ),
    "everything": (
        q.HybridSearchRequest(
            query_embedding=q.Embedding(),
            filter=m.Filter(
                role=17,  # type: ignore[arg-type]  # no such role
                conversation_id=" ",
                time_range=m.TimeRange(since=Timestamp(seconds=9), until=Timestamp(seconds=5)),
            ),
            top_k=999,
            return_fields=FieldMask(paths=["score"]),
        ),
        [
            "user_id",
            "query_text",
            "query_embedding.values",
            "filter.time_range",
            "filter.role",
            "filter.conversation_id",
            "top_k",
            "return_fields",
        ],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_request_reports_every_violation(vector_server: Server, name: str) -> None:
    request, fields = REFUSED[name]
    with pytest.raises(grpc.RpcError) as error:
        vector_server.query.HybridSearch(request)
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert refused.fields == fields


def test_invalid_write_token_is_rejected(vector_server: Server, user: str) -> None:
    with pytest.raises(grpc.RpcError) as error:
        ask(vector_server, user, "tea", "no token of ours")
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_return_fields_select_the_returned_fields(vector_server: Server, user: str) -> None:
    token = write(
        vector_server, [new_message(user, "a", "tea", 5, name="Ann", metadata={"k": "v"}, conversation_id="c")]
    )
    answer = ask(vector_server, user, "tea", token, return_fields=FieldMask(paths=["name"]), explain=True)
    assert answer.items[0].message == m.ChatMessage(message_id="a", name="Ann")
    assert answer.items[0].explanation.components
    whole = ask(vector_server, user, "tea").items[0]
    assert whole.message.content == "tea"
    assert not whole.HasField("explanation")


def test_score_components_add_up_to_the_score(vector_server: Server, user: str) -> None:
    talk = chat(user, 60, name="Ann", conversation_id="c")
    for n, message in enumerate(talk):
        message.embedding.extend((math.cos(n), math.sin(n), 0.0, 0.0))
    said_of_it = [
        new_message(user, "spoken", "I bought the blue bicycle in Lisbon", 9e3, name="Bob"),
        new_message(user, "why", "Why did you buy it?", 9030, name="Ann"),
        new_message(user, "because", "Because of the hills in Lisbon", 9060, name="Bob"),
    ]
    token = write(vector_server, [*talk, *said_of_it])
    answer = ask(
        vector_server, user, "What did Bob buy in Lisbon in January 1970?", token,
        query_embedding=q.Embedding(values=EAST), top_k=200, explain=True,
    )  # fmt: skip
    documented = set(re.findall(r"`(\w+)`", "`meaning`, `words`, `speaker`, `concrete`, `dates`, `answers`, `asks`"))
    documented |= {"around", "conversation", "shared"}
    seen: set[str] = set()
    for item in answer.items:
        parts = {part.name: part.value for part in item.explanation.components}
        assert item.score == pytest.approx(sum(parts.values()), abs=2e-6)
        assert 0 <= item.explanation.coverage <= 1
        seen |= parts.keys()
    assert seen <= documented
    assert {"meaning", "words", "speaker", "dates", "answers", "asks", "around", "shared"} <= seen
    nearest = max(answer.items, key=lambda item: item.explanation.semantic_score)
    assert nearest.message.message_id == "talk00000"
    assert nearest.explanation.semantic_score == pytest.approx(1.0)


def test_semantic_search_finds_messages_without_shared_terms(vector_server: Server, user: str) -> None:
    messages = [
        new_message(user, "near", "chrysanthemum", 1, embedding=EAST),
        new_message(user, "aside", "carburettor", 2 * 86_400, embedding=NORTH),
        new_message(user, "far", "sarcophagus", 4 * 86_400, embedding=WEST),
    ]
    token = write(vector_server, messages)
    by_words = ask(vector_server, user, "flowers", token)
    assert by_words.semantic_unavailable
    assert not by_words.embedding_model
    assert not by_words.items
    assert by_words.sufficiency == 0
    by_meaning = ask(vector_server, user, "flowers", token, query_embedding=q.Embedding(values=EAST), explain=True)
    assert not by_meaning.semantic_unavailable
    assert by_meaning.sufficiency_lexical_only, "cosines of an unknown model"
    assert by_meaning.embedding_model == "none"
    assert result_ids(by_meaning) == ["near", "aside", "far"]
    assert [item.explanation.semantic_score for item in by_meaning.items] == pytest.approx([1, 0, -1], abs=1e-6)


def test_response_is_truncated_at_the_size_limit(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    with start(own_settings.copy_with_changes(max_response_bytes=20_000)) as server:
        token = write(server, [new_message("u", f"m{n}", "tea " + "x" * 900, n) for n in range(40)])
        answer = ask(server, "u", "tea", token, top_k=40)
        assert answer.truncated
        assert 10 < len(answer.items) < 40
        assert answer.ByteSize() <= 20_000
        explained = ask(server, "u", "tea", top_k=40, explain=True)
        assert explained.truncated
        assert explained.ByteSize() <= 20_000
        short = ask(server, "u", "tea", top_k=3)
        assert (len(short.items), short.truncated) == (3, False)
        huge = write(server, [new_message("v", "m", "tea " + "x" * 200_000)])
        assert result_ids(ask(server, "v", "tea", huge)) == ["m"]
