"""One call is one tree of spans, whichever processes work for it, and its trace is in their lines of log."""

from __future__ import annotations

import grpc
import pytest
from server.fleet import Fleet, until
from tracing.calls import CALLER, fresh_trace, of_trace
from tracing.collector import Collector, Seen, strays

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from talk import said

READER = 1
SERVER, CLIENT = 2, 3
VECTOR = (1.0, 0.0, 0.0, 0.0)
SLACK_NS = 50_000_000
"""Two processes look at one clock; what one tells the other takes a moment."""


@pytest.fixture(scope="module")
def reader(traced_fleet: Fleet) -> grpc.Channel:
    """A connection to a process that has no writer, no model and no vectors."""
    return traced_fleet.channels()[READER]


@pytest.fixture(scope="module")
def lin(reader: grpc.Channel) -> str:
    """A user with messages."""
    messages = [said("lin", f"m{n}", f"I like zebras, number {n}", ts=1000 + n, embedding=VECTOR) for n in range(5)]
    token = IngestServiceStub(reader).WriteMessages(i.WriteMessagesRequest(messages=messages), timeout=30).write_token
    words = q.LexicalSearchRequest(user_id="lin", query_text="zebras", at_least=token)
    QueryServiceStub(reader).LexicalSearch(words, timeout=30)
    vector = q.SemanticSearchRequest(user_id="lin", query_embedding=q.Embedding(values=VECTOR), at_least=token)
    QueryServiceStub(reader).SemanticSearch(vector, timeout=30)
    return "lin"


def recalled(reader: grpc.Channel, trace: str, tracestate: str = "") -> None:
    request = r.RecallRequest(question="Which animals do I like?", question_embedding=q.Embedding(values=VECTOR))
    metadata = of_trace(trace, x_user_id="lin", tracestate=tracestate)
    RecallServiceStub(reader).Recall(request, metadata=metadata, timeout=30)


def test_a_recall_is_one_tree_over_two_processes(reader: grpc.Channel, lin: str, shared_collector: Collector) -> None:
    trace = fresh_trace()
    recalled(reader, trace, tracestate="vendor=1")
    spans = shared_collector.trace(trace, "nomemory.v1.RecallService/Recall", "vectors search")
    assert lin
    assert [one.name for one in spans if one.parent == CALLER] == ["nomemory.v1.RecallService/Recall"]
    assert not list(strays(spans))
    assert len({one.span for one in spans}) == len(spans)
    assert {one.state for one in spans} == {"vendor=1"}
    processes = {one.process for one in spans}
    assert {name for name, _ in processes} == {"reader-1", "writer"}
    assert len({process_id for _, process_id in processes}) == 2


def test_each_piece_of_work_lies_within_what_it_is_for(
    reader: grpc.Channel, lin: str, shared_collector: Collector
) -> None:
    trace = fresh_trace()
    recalled(reader, trace)
    spans = shared_collector.trace(trace, "nomemory.v1.RecallService/Recall", "vectors search")
    by_id = {one.span: one for one in spans}
    assert lin
    for one in spans:
        around = by_id.get(one.parent)
        if around is not None:
            assert around.began_ns - SLACK_NS <= one.began_ns <= one.ended_ns <= around.ended_ns + SLACK_NS

    def way(span: Seen) -> list[str]:
        return [*(way(by_id[span.parent]) if span.parent in by_id else []), span.name]

    (deepest, *_) = (way(one) for one in spans if one.name == "vectors search")
    assert deepest == [
        "nomemory.v1.RecallService/Recall",
        "invoke_agent recall",
        "execute_tool hybrid_search",
        "search_memory",
        "writer direct.search",
        "writer direct.search",
        "vectors search",
    ]
    assert [one.kind for one in spans if one.name == "writer direct.search"][:2] in ([SERVER, CLIENT], [CLIENT, SERVER])


def test_a_write_is_part_of_its_callers_trace_in_the_writers_process(
    reader: grpc.Channel, shared_collector: Collector
) -> None:
    trace = fresh_trace()
    request = i.WriteMessagesRequest(messages=[said("ben", "m1", "Good morning"), said("ben", "m2", "Good night")])
    IngestServiceStub(reader).WriteMessages(request, metadata=of_trace(trace), timeout=30)
    spans = shared_collector.trace(trace, "nomemory.v1.IngestService/WriteMessages", "upsert_memory")
    (stored,) = (one for one in spans if one.name == "upsert_memory")
    assert stored.process[0] == "writer"
    assert stored.attributes["gen_ai.memory.record.count"] == 2


def test_every_line_of_a_traced_call_has_its_trace(reader: grpc.Channel, traced_fleet: Fleet) -> None:
    trace = fresh_trace()
    request = i.WriteMessagesRequest(messages=[said("ann", "m1", "Good morning")])
    named = of_trace(trace, sampled=False, x_request_id=f"write-{trace}")
    IngestServiceStub(reader).WriteMessages(request, metadata=named, timeout=30)
    assert until(lambda: [line for line in lines_of(traced_fleet, f"write-{trace}") if line["event"] == "rpc"] != [])
    lines = lines_of(traced_fleet, f"write-{trace}")
    assert {line["event"] for line in lines} == {"rpc", "audit"}
    assert {line.get("trace_id") for line in lines} == {trace}


def test_a_line_of_no_call_has_no_trace(traced_fleet: Fleet) -> None:
    serving = [line for line in traced_fleet.lines() if line["event"] == "serving"]
    assert serving
    assert not any("trace_id" in line for line in serving)


def lines_of(running: Fleet, request_id: str) -> list[dict[str, object]]:
    return [line for line in running.lines() if line.get("request_id") == request_id]


def test_what_the_caller_does_not_record_is_not_recorded(reader: grpc.Channel, shared_collector: Collector) -> None:
    quiet, heard = fresh_trace(), fresh_trace()
    for trace, sampled in ((quiet, False), (heard, True)):
        QueryServiceStub(reader).ListMessages(
            q.ListMessagesRequest(user_id="lin"), metadata=of_trace(trace, sampled=sampled), timeout=30
        )
    shared_collector.trace(heard, "nomemory.v1.QueryService/ListMessages")
    assert [one for one in shared_collector.spans if one.trace == quiet] == []


def test_a_refused_call_is_told_by_its_code_and_reason(reader: grpc.Channel, shared_collector: Collector) -> None:
    trace = fresh_trace()
    with pytest.raises(grpc.RpcError):
        QueryServiceStub(reader).ListMessages(q.ListMessagesRequest(), metadata=of_trace(trace), timeout=30)
    (refused,) = shared_collector.trace(trace, "nomemory.v1.QueryService/ListMessages")
    assert refused.attributes["rpc.response.status_code"] == "INVALID_ARGUMENT"
    assert refused.attributes["error.type"] == "INVALID_FIELD"
    assert refused.status == 0
