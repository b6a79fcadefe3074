"""Tests for the requests of each evaluated method and the parsing of its responses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import grpc
import pytest
from client.scripted_server import Scripted, scripted_server

from evaluation.asking import (
    Method,
    MethodResult,
    UnsupportedMethodError,
    ask_all,
    ask_lexical,
    ask_question,
    ask_semantic,
    select_methods,
)
from evaluation.labeled_file import Question
from nomemory.client import Client
from nomemory.client.errors import NoMemoryError
from nomemory.server.faults import Fault, Reason, Violation, build_field_fault
from nomemory.v1 import query_service_pb2 as pb

QUESTION = Question("q", "ann", "我对什么过敏？", "food", frozenset({"m1"}), datetime(2025, 6, 1, tzinfo=UTC))


@pytest.fixture
def script() -> Iterator[Scripted]:
    with scripted_server() as running:
        yield running


def measured(script: Scripted, method: Method, question: Question = QUESTION) -> MethodResult:
    with Client(script.target, attempts=1) as client:
        return ask_question(client, method, question, lambda: None).result


def test_hybrid_method_requests_50_earlier_messages_and_records_sufficiency(script: Scripted) -> None:
    reply = pb.HybridSearchResponse(sufficiency=0.25)
    for message_id in ("m2", "m1"):
        reply.items.add().message.message_id = message_id
    script.will("HybridSearch", reply)
    assert measured(script, select_methods(["HybridSearch"])["HybridSearch"]) == MethodResult(
        ("m2", "m1"), sufficiency=0.25
    )
    (request,) = script.requests
    assert isinstance(request, pb.HybridSearchRequest)
    assert (request.user_id, request.query_text, request.top_k) == ("ann", QUESTION.text, 50)
    assert request.filter.time_range.until.ToDatetime(UTC) == QUESTION.now
    assert not request.filter.time_range.HasField("since")


def test_too_complex_question_is_shortened_until_it_is_accepted(script: Scripted) -> None:
    too_complex = build_field_fault(
        Reason.ERROR_REASON_QUERY_TOO_COMPLEX, Violation("query_text", "has more than 128 terms")
    )
    script.will("LexicalSearch", too_complex, too_complex, pb.LexicalSearchResponse())
    question = Question("q", "ann", "词" * 3000, "food", frozenset(), None)
    assert measured(script, ask_lexical, question).is_truncated
    lengths = [len(request.query_text) for request in script.requests if isinstance(request, pb.LexicalSearchRequest)]
    assert lengths == [2000, 1800, 1620]


def test_unsupported_method_is_distinguished_from_a_failed_call(script: Scripted) -> None:
    disabled = Fault(Reason.ERROR_REASON_EMBEDDER_DISABLED, "there is no embedder")
    for answer in (disabled, grpc.StatusCode.UNIMPLEMENTED):
        script.will("SemanticSearch", answer)
        with pytest.raises(UnsupportedMethodError):
            measured(script, ask_semantic)
    script.will("SemanticSearch", grpc.StatusCode.INTERNAL)
    with pytest.raises(NoMemoryError):
        measured(script, ask_semantic)


def test_first_question_is_a_warm_up_and_not_measured(script: Scripted) -> None:
    script.will("SemanticSearch", pb.SemanticSearchResponse())
    clock = iter(range(100, 1000, 7))
    with Client(script.target) as client:
        answers = list(ask_all(client, ask_semantic, [QUESTION, QUESTION], lambda: float(next(clock))))
    assert len(script.requests) == 3
    assert [answer.cpu_ms for answer in answers] == [7, 7]
    assert all(answer.latency_ms > 0 for answer in answers)
