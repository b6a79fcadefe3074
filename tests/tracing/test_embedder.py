"""Tests for the spans of embedder requests, with OpenTelemetry names; cached vectors cause none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from server.models import DIMENSION, models
from tracing.calls import fresh_trace, of_trace
from tracing.collector import Collector

from nomemory.server.runtime.settings import Settings
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

CALL = "nomemory.v1.QueryService/SemanticSearch"


def test_query_embedding_span_is_within_its_call(
    start: Callable[[Settings], AbstractContextManager[Server]], traced_settings: Settings, collector: Collector
) -> None:
    named = {"embedder": "openai", "embedding_model": "some-model", "embedding_dimension": DIMENSION}
    first, again = fresh_trace(), fresh_trace()
    with (
        models() as served,
        start(traced_settings.copy_with_changes(openai_base_url=served.url, openai_api_key="any", **named)) as server,
    ):
        for trace in (first, again):
            request = q.SemanticSearchRequest(user_id="lin", query_text="zeppelin")
            server.query.SemanticSearch(request, metadata=of_trace(trace), timeout=30)
        spans = collector.trace(first, CALL, "search_memory", "embeddings some-model")
        remembered = collector.trace(again, CALL, "search_memory")
    (embedded,) = (span for span in spans if span.name == "embeddings some-model")
    assert embedded.attributes == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "some-model",
        "gen_ai.embeddings.dimension.count": DIMENSION,
    }
    by_id = {span.span: span for span in spans}
    assert by_id[embedded.parent].name == "search_memory"
    assert "embeddings some-model" not in {item.name for item in remembered}
    assert b"zeppelin" not in b"".join(collector.raw)
