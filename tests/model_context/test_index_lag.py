"""Tests that a search returns the available messages if the server cannot include the user's last write."""

from __future__ import annotations

import json

import grpc
import pytest
from client.scripted_server import scripted_server
from mcp.client import Client
from model_context.tool_results import ids, text_of

from nomemory.mcp.backend import Backend
from nomemory.mcp.credentials import Credential
from nomemory.mcp.server import MemoryServer
from nomemory.server.faults import Fault, Reason
from nomemory.v1 import ingest_service_pb2 as ingest
from nomemory.v1 import query_service_pb2 as query
from nomemory.v1 import recall_service_pb2 as recall
from nomemory.v1 import server_service_pb2 as server

CALLER = server.CallerInfo(scopes=["ingest", "query", "recall", "act-as"])


@pytest.mark.parametrize("reason", [Reason.ERROR_REASON_INDEX_LAGGING, Reason.ERROR_REASON_WRITE_TOKEN_INVALID])
async def test_search_after_a_write_does_not_fail_if_the_server_cannot_include_it(reason: Reason.ValueType) -> None:
    late = Fault(reason, "the write cannot be included")
    written = ingest.WriteMessagesResponse(results=[ingest.WriteResult(outcome=ingest.WRITE_OUTCOME_CREATED)])
    written.write_token = "w_1"  # noqa: S105 - not a secret
    with scripted_server() as script:
        script.will("GetServerInfo", server.GetServerInfoResponse(caller=CALLER))
        script.will("WriteMessages", written)
        script.will("HybridSearch", late, query.HybridSearchResponse(index_lagging=True))
        script.will("Recall", recall.RecallResponse(verdict=recall.VERDICT_PENDING))
        async with grpc.aio.insecure_channel(script.target) as channel:
            backend = Backend(channel, 10)
            protocol = MemoryServer(backend, lambda _context: backend.bind_caller(Credential((), "ann")))
            async with Client(protocol.build_protocol_server()) as client:
                await client.call_tool("remember", {"content": "I moved to Basel."})
                searched = await client.call_tool("search", {"query": "Where did I move to?"})
                recalled = await client.call_tool("recall", {"query": "Where did I move to?"})
    tokens = [request.at_least for request in script.requests if isinstance(request, query.HybridSearchRequest)]
    assert tokens == ["w_1", ""]
    assert ids(searched) == []
    assert json.loads(text_of(searched)) == {"messages": [], "index_lagging": True}
    assert text_of(recalled).startswith(
        "Verdict: pending (the messages do not answer the question, and the latest ones"
    )
