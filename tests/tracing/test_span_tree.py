"""Tests that the spans of a call form one tree, and that its log lines have the trace id."""

from __future__ import annotations

import grpc
import pytest
from server.fleet import Fleet, until
from tracing.calls import CALLER, fresh_trace, of_trace
from tracing.collector import Collector, Seen, strays

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub

VECTOR = (1.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def channel(traced_server: Fleet) -> grpc.Channel:
    """A connection to the server."""
    return traced_server.channel()


@pytest.fixture(scope="module")
def lin(channel: grpc.Channel) -> str:
    """A user with messages."""
    messages = [
        new_message("lin", f"m{n}", f"I like zebras, number {n}", ts=1000 + n, embedding=VECTOR) for n in range(5)
    ]
    token = IngestServiceStub(channel).WriteMessages(i.WriteMessagesRequest(messages=messages), timeout=30).write_token
    words = q.LexicalSearchRequest(user_id="lin", query_text="zebras", at_least=token)
    QueryServiceStub(channel).LexicalSearch(words, timeout=30)
    vector = q.SemanticSearchRequest(user_id="lin", query_embedding=q.Embedding(values=VECTOR), at_least=token)
    QueryServiceStub(channel).SemanticSearch(vector, timeout=30)
    return "lin"


def recalled(channel: grpc.Channel, trace: str, tracestate: str = "") -> None:
    request = r.RecallRequest(question="Which animals do I like?", question_embedding=q.Embedding(values=VECTOR))
    metadata = of_trace(trace, x_user_id="lin", tracestate=tracestate)
    RecallServiceStub(channel).Recall(request, metadata=metadata, timeout=30)


def test_recall_spans_form_one_tree(channel: grpc.Channel, lin: str, shared_collector: Collector) -> None:
    trace = fresh_trace()
    recalled(channel, trace, tracestate="vendor=1")
    spans = shared_collector.trace(trace, "nomemory.v1.RecallService/Recall", "vector search")
    assert lin
    assert [span.name for span in spans if span.parent == CALLER] == ["nomemory.v1.RecallService/Recall"]
    assert not list(strays(spans))
    assert len({span.span for span in spans}) == len(spans)
    assert {span.state for span in spans} == {"vendor=1"}
    assert len({span.process_id for span in spans}) == 1


def test_child_spans_lie_within_their_parents(channel: grpc.Channel, lin: str, shared_collector: Collector) -> None:
    trace = fresh_trace()
    recalled(channel, trace)
    spans = shared_collector.trace(trace, "nomemory.v1.RecallService/Recall", "vector search")
    by_id = {item.span: item for item in spans}
    assert lin
    for item in spans:
        around = by_id.get(item.parent)
        if around is not None:
            assert around.began_ns <= item.began_ns <= item.ended_ns <= around.ended_ns

    def way(span: Seen) -> list[str]:
        return [*(way(by_id[span.parent]) if span.parent in by_id else []), span.name]

    (deepest, *_) = (way(item) for item in spans if item.name == "vector search")
    assert deepest == [
        "nomemory.v1.RecallService/Recall",
        "invoke_agent recall",
        "execute_tool hybrid_search",
        "search_memory",
        "vector search",
    ]


def test_write_continues_the_trace_of_its_caller(channel: grpc.Channel, shared_collector: Collector) -> None:
    trace = fresh_trace()
    request = i.WriteMessagesRequest(
        messages=[new_message("ben", "m1", "Good morning"), new_message("ben", "m2", "Good night")]
    )
    IngestServiceStub(channel).WriteMessages(request, metadata=of_trace(trace), timeout=30)
    spans = shared_collector.trace(trace, "nomemory.v1.IngestService/WriteMessages", "upsert_memory")
    (stored,) = (span for span in spans if span.name == "upsert_memory")
    assert stored.attributes["gen_ai.memory.record.count"] == 2


def test_every_log_line_of_a_traced_call_has_its_trace_id(channel: grpc.Channel, traced_server: Fleet) -> None:
    trace = fresh_trace()
    request = i.WriteMessagesRequest(messages=[new_message("ann", "m1", "Good morning")])
    named = of_trace(trace, sampled=False, x_request_id=f"write-{trace}")
    IngestServiceStub(channel).WriteMessages(request, metadata=named, timeout=30)
    assert until(lambda: [line for line in lines_of(traced_server, f"write-{trace}") if line["event"] == "rpc"] != [])
    lines = lines_of(traced_server, f"write-{trace}")
    assert {line["event"] for line in lines} == {"rpc", "audit"}
    assert {line.get("trace_id") for line in lines} == {trace}


def test_log_lines_outside_calls_have_no_trace_id(traced_server: Fleet) -> None:
    serving = [line for line in traced_server.lines() if line["event"] == "serving"]
    assert serving
    assert not any("trace_id" in line for line in serving)


def lines_of(running: Fleet, request_id: str) -> list[dict[str, object]]:
    return [line for line in running.lines() if line.get("request_id") == request_id]


def test_unsampled_trace_is_not_recorded(channel: grpc.Channel, shared_collector: Collector) -> None:
    quiet, heard = fresh_trace(), fresh_trace()
    for trace, sampled in ((quiet, False), (heard, True)):
        QueryServiceStub(channel).ListMessages(
            q.ListMessagesRequest(user_id="lin"), metadata=of_trace(trace, sampled=sampled), timeout=30
        )
    shared_collector.trace(heard, "nomemory.v1.QueryService/ListMessages")
    assert [span for span in shared_collector.spans if span.trace == quiet] == []


def test_rejected_call_span_has_code_and_reason(channel: grpc.Channel, shared_collector: Collector) -> None:
    trace = fresh_trace()
    with pytest.raises(grpc.RpcError):
        QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(), metadata=of_trace(trace), timeout=30)
    (refused,) = shared_collector.trace(trace, "nomemory.v1.QueryService/ListMessages")
    assert refused.attributes["rpc.response.status_code"] == "INVALID_ARGUMENT"
    assert refused.attributes["error.type"] == "INVALID_FIELD"
    assert refused.status == 0
