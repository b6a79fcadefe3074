"""Tests that logs contain no content, names or questions."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
from hybrid.hybrid_requests import EAST
from server.fleet import fleet

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub

CANARY = "zanzibarcanary"


def test_message_content_and_query_text_are_not_logged(tmp_path: Path) -> None:
    with fleet(tmp_path / "data") as alone:
        channel = alone.channel()
        message = new_message("u", "m", f"{CANARY} said so", name=f"{CANARY}-name", embedding=EAST)
        written = IngestServiceStub(channel).WriteMessages(i.WriteMessagesRequest(messages=[message]))
        query = QueryServiceStub(channel)
        request = q.HybridSearchRequest(
            user_id="u", query_text=f"{CANARY}?", explain=True, at_least=written.write_token
        )
        assert query.HybridSearch(request).items
        for refused in (
            q.HybridSearchRequest(user_id="u", query_text=CANARY, top_k=-1),
            q.HybridSearchRequest(user_id="u", query_text=f"{CANARY}\0"),
            q.HybridSearchRequest(user_id="u", query_text=CANARY * 5_000),
        ):
            with pytest.raises(grpc.RpcError):
                query.HybridSearch(refused)
        lines = alone.lines()
    assert [line["code"] for line in lines if line.get("method") == "HybridSearch"] == ["OK"] + ["INVALID_ARGUMENT"] * 3
    assert CANARY not in json.dumps(lines)
