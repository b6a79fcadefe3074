"""Tests that a flood of one user is rejected with a retry delay while other users are served."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server.fleet import connected, until

from chat_messages import new_message
from nomemory.client.sync import Client
from nomemory.server.api.services.recall_stubs import InProcessQueryStub
from nomemory.server.embedding.local_model import is_local_model_available
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import Refusal, refusal
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], AbstractContextManager["Server"]]

CALLERS = 24
QUESTION = "When did I say anything about tea, coffee, the report, the river or my sister?"
LONG = "我从小就不吃辣椒，因为胃不好。" * 40
GENEROUS_S = 20.0
"""What a quiet user's read may take on a slow machine that others use."""


def refusals(calls: Iterable[grpc.Future[Any]]) -> list[Refusal]:
    """Wait for all calls; return the errors of the failed ones."""
    return [refusal(error) for error in (call.exception() for call in calls) if isinstance(error, grpc.RpcError)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that admits two expensive reads per user at a time."""
    settings = settings_without_embedder(tmp_path_factory.mktemp("small"), max_inflight_reads_per_user=2)
    with started(settings) as server:
        messages = [new_message("loud", f"m{n}", f"tea and the report {n}", n) for n in range(400)]
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[*messages, new_message("quiet", "m", "hello", 1)]))
        yield server


def test_flooding_caller_gets_retry_info_and_others_are_served(small: Server) -> None:
    request = q.HybridSearchRequest(user_id="loud", query_text=QUESTION, top_k=200)
    request.query_embedding.values.extend([1.0, 0.0, 0.0, 0.0])
    flood = [small.query.HybridSearch.future(request, timeout=60) for _ in range(CALLERS)]
    listed = small.query.ListMessages(q.ListMessagesRequest(user_id="quiet"), timeout=GENEROUS_S)
    with grpc.insecure_channel(small.target) as channel:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=GENEROUS_S)
    assert [item.message_id for item in listed.items] == ["m"]
    refused_calls = refusals(flood)
    assert 0 < len(refused_calls) < CALLERS
    assert {(item.code, item.reason) for item in refused_calls} == {(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")}
    assert all(item.retry_s for item in refused_calls)


def test_rejected_recall_reports_the_reason(small: Server) -> None:
    with grpc.insecure_channel(small.target) as channel:
        recall = RecallServiceStub(channel).Recall
        request = r.RecallRequest(question=QUESTION)
        flood = [recall.future(request, metadata=(("x-user-id", "loud"),), timeout=60) for _ in range(CALLERS)]
        refused_calls = refusals(flood)
    assert refused_calls
    assert {item.reason for item in refused_calls} == {"OVERLOADED"}


def test_status_has_the_numbers_of_active_and_rejected_reads(small: Server) -> None:
    request = q.HybridSearchRequest(user_id="loud", query_text=QUESTION)
    with Client(small.target) as client:
        before = client.server_info().read_load.rejected
        flood = [small.query.HybridSearch.future(request, timeout=60) for _ in range(CALLERS)]
        refused = sum(call.exception() is not None for call in flood)
        info = client.server_info()
    assert (info.read_load.rejected - before, info.read_load.running, info.read_load.waiting) == (refused, 0, 0)
    assert info.limits.max_inflight_reads_per_user == 2


def test_recall_reports_an_overloaded_upstream_server(start: Start, own_settings: Settings) -> None:
    full = own_settings.copy_with_changes(max_inflight_reads_per_user=1)
    with (
        start(full) as server,
        start(own_settings.copy_with_changes(recall_upstream=server.target)) as recalls,
        grpc.insecure_channel(recalls.target) as channel,
    ):
        messages = [new_message("loud", f"m{n}", f"tea and the report {n}", n) for n in range(400)]
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
        recall, request = RecallServiceStub(channel).Recall, r.RecallRequest(question=QUESTION)
        refused_calls = refusals(
            [recall.future(request, metadata=(("x-user-id", "loud"),), timeout=GENEROUS_S) for _ in range(8)]
        )
    assert {item.reason for item in refused_calls} == {"OVERLOADED"}


async def test_overload_of_a_search_within_a_recall_reaches_the_caller() -> None:
    class Full:
        def __getattr__(self, _name: str) -> object:
            return self.refuse

        async def refuse(self, _request: object, _call: object) -> bytes:
            raise Fault(Reason.ERROR_REASON_OVERLOADED, "too many reads are waiting", retry_after_s=1.0)

    with pytest.raises(Fault, match="too many reads"):
        await InProcessQueryStub(Full()).HybridSearch(q.HybridSearchRequest(), timeout=1)  # type: ignore[arg-type]


@pytest.mark.skipif(not is_local_model_available(), reason="the local embedder has no package for this platform")
def test_canceled_semantic_searches_block_neither_other_users_nor_the_shutdown(start: Start, tmp_path: Path) -> None:
    settings = Settings.from_environment(
        data=tmp_path / "data",
        listen="127.0.0.1:0",
        embedder="local",
        drain_timeout_s=0.0,
        max_inflight_reads_per_user=250,
    )
    with start(settings) as server:
        meaning = server.query.SemanticSearch
        meaning(q.SemanticSearchRequest(user_id="quiet", query_text="warm"), timeout=60)
        abandoned = [
            meaning.future(q.SemanticSearchRequest(user_id="loud", query_text=f"{n} {LONG}"), timeout=0.3)
            for n in range(200)
        ]
        assert until(lambda: all(call.done() for call in abandoned))
        with connected(server.target) as channel:  # the connection of the flooding client may be throttled
            QueryServiceStub(channel).SemanticSearch(
                q.SemanticSearchRequest(user_id="quiet", query_text="tea"), timeout=GENEROUS_S
            )
        began = time.monotonic()
    assert time.monotonic() - began < GENEROUS_S
