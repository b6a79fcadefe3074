"""Tests that spans contain no content unless enabled, and that trace context grants no access."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import httpx
import pytest
from identity.calls import EVERY
from identity.issuer import AUDIENCE, ISSUER, SECRET, token
from identity.keyring import Keyring
from recall.llm.chat_script import ChatScript, answers, running_script, usage_of
from tracing.calls import CALLER, fresh_trace, of_trace
from tracing.collector import Collector, Seen

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

USER, TALK, NAME, QUESTION = "zanzibar-user", "zucchini-conversation", "zebedee-name", "Which zeppelin do I like?"
CONTENT, META = "I like the zeppelin over Zwolle.", "zymurgy-value"
MARKS = ("zanzibar", "zucchini", "zebedee", "zeppelin", "zwolle", "zymurgy", "zealous")
USAGE = {
    "gen_ai.usage.input_tokens": 1_000,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 900,
}
Start = Callable[[Settings], AbstractContextManager["Server"]]


@pytest.fixture
def script() -> Iterator[ChatScript]:
    """A scripted chat model."""
    with running_script() as running:
        yield running


@dataclass(frozen=True)
class RecordedConversation:
    """The recorded calls and spans of a conversation."""

    spans: list[Seen]
    raw: bytes


def talked(server: Server, collector: Collector, trace: str) -> RecordedConversation:
    """Write, search, recall and delete in one trace, with content in every field."""
    meta = of_trace(trace)
    message = new_message(
        USER, "zealous-id", CONTENT, ts=1000, embedding=(1.0, 0.0, 0.0, 0.0), conversation_id=TALK, name=NAME
    )
    message.metadata["kind"] = META
    written = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[message]), metadata=meta, timeout=30)
    at_least = written.write_token
    embedding = q.Embedding(values=(1.0, 0.0, 0.0, 0.0))
    query = server.query
    query.LexicalSearch(
        q.LexicalSearchRequest(user_id=USER, query_text="zeppelin", at_least=at_least), metadata=meta, timeout=30
    )
    query.SemanticSearch(
        q.SemanticSearchRequest(user_id=USER, query_embedding=embedding, at_least=at_least), metadata=meta, timeout=30
    )
    query.HybridSearch(
        q.HybridSearchRequest(user_id=USER, query_text=QUESTION, query_embedding=embedding), metadata=meta, timeout=30
    )
    query.ListMessages(q.ListMessagesRequest(user_id=USER), metadata=meta, timeout=30)
    with grpc.insecure_channel(server.target) as channel:
        request = r.RecallRequest(question=QUESTION, question_embedding=embedding)
        RecallServiceStub(channel).Recall(request, metadata=(*meta, ("x-user-id", USER)), timeout=30)
        for name in EVERY:
            with suppress(grpc.RpcError):
                EVERY[name].send(channel, USER, of_trace(trace, x_user_id=USER))
    server.ingest.EraseUser(i.EraseUserRequest(user_id=USER), metadata=meta, timeout=30)
    spans = collector.trace(trace, "nomemory.v1.IngestService/EraseUser", "delete_memory_store", "invoke_agent recall")
    return RecordedConversation(spans, b"".join(collector.raw))


def test_spans_contain_no_content_and_no_ids(
    start: Start, traced_settings: Settings, collector: Collector, script: ChatScript
) -> None:
    with start(with_model(traced_settings, script)) as server:
        seen = talked(server, collector, fresh_trace())
    assert [mark for mark in MARKS if mark.encode() in seen.raw.lower()] == []
    names = {span.name for span in seen.spans}
    assert {
        "search_memory",
        "upsert_memory",
        "execute_tool lexical_search",
        "chat scripted",
        "list messages",
    } <= names
    model_span = next(span for span in seen.spans if span.name == "chat scripted")
    assert model_span.attributes["gen_ai.operation.name"] == "chat"
    assert model_span.attributes["gen_ai.request.model"] == "scripted"
    by_id = {span.span: span for span in seen.spans}
    recall_span = by_id[model_span.parent]
    assert recall_span.name == "invoke_agent recall"
    requests = [span for span in seen.spans if span.name == "chat scripted" and span.parent == recall_span.span]
    for name, tokens in USAGE.items():
        assert model_span.attributes[name] == tokens
        assert recall_span.attributes[name] == tokens * len(requests)


def test_spans_contain_content_if_enabled(
    start: Start, traced_settings: Settings, collector: Collector, script: ChatScript
) -> None:
    allowed = with_model(traced_settings, script).copy_with_changes(trace_content=True)
    with start(allowed) as server:
        seen = talked(server, collector, fresh_trace())
    of = {(span.name, name, str(value)) for span in seen.spans for name, value in span.attributes.items()}
    assert ("invoke_agent recall", "gen_ai.memory.query.text", QUESTION) in of
    assert ("invoke_agent recall", "gen_ai.memory.store.id", USER) in of
    assert ("search_memory", "gen_ai.memory.query.text", QUESTION) in of
    assert "zeppelin" in attribute_of(seen, "execute_tool lexical_search", "gen_ai.tool.call.arguments")
    assert QUESTION in attribute_of(seen, "chat scripted", "gen_ai.input.messages")
    assert "zeppelin" in attribute_of(seen, "chat scripted", "gen_ai.output.messages")


def attribute_of(seen: RecordedConversation, name: str, attribute: str) -> str:
    """Return the values of an attribute in the spans of a name."""
    return "\n".join(str(span.attributes.get(attribute)) for span in seen.spans if span.name == name)


def with_model(settings: Settings, script: ChatScript) -> Settings:
    """Use a chat model that searches for a word repeatedly."""
    filtered = {"role": "any", "time_range": {"until": "2030-01-01T00:00:00Z"}}
    search = {"stop": False, "tool": "lexical_search", "args": {"query_text": "zeppelin", "filter": filtered}}
    script.answers = [answers(search, usage_of(prompt=1_000, completion=20, cached=900))]
    return settings.copy_with_changes(
        openai_base_url=script.url, openai_api_key="zealous-key", recall_model="scripted", recall_model_timeout_s=5.0
    )


def test_foreign_trace_context_grants_no_access(
    start: Start, traced_settings: Settings, collector: Collector, tmp_path: Path
) -> None:
    """Mallory sends the trace context of Alice: only the trace gets more spans."""
    keyring = Keyring(tmp_path / "keys")
    loader = keyring.key("ingest", name="loader")
    guarded = traced_settings.copy_with_changes(
        api_keys=str(keyring.path), jwt_secret=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE
    )
    trace = fresh_trace()
    with start(guarded) as server:
        written = i.WriteMessagesRequest(
            messages=[new_message("alice", "m1", "my secret"), new_message("mallory", "m2", "mine")]
        )
        server.ingest.WriteMessages(written, metadata=(("x-api-key", loader),), timeout=30)
        alices = of_trace(trace, authorization=f"Bearer {token('alice')}")
        assert len(server.query.ListMessages(q.ListMessagesRequest(user_id="alice"), metadata=alices).items) == 1
        mallorys = of_trace(trace, authorization=f"Bearer {token('mallory')}")
        refused = {}
        for name, metadata in (("as mallory", mallorys), ("as nobody", of_trace(trace))):
            with pytest.raises(grpc.RpcError) as error:
                server.query.ListMessages(q.ListMessagesRequest(user_id="alice"), metadata=metadata)
            refused[name] = refusal(error.value).reason
        assert refused == {"as mallory": "OTHER_USER", "as nobody": "CREDENTIALS_MISSING"}
        listed = server.query.ListMessages(q.ListMessagesRequest(user_id="mallory"), metadata=mallorys).items
        assert [item.message_id for item in listed] == ["m2"]
        spans = collector.wait(lambda spans: sum(span.parent == CALLER for span in spans) == 4)
    said_of = {value for span in spans for value in span.attributes.values()}
    assert not {"alice", "mallory", "loader", "my secret"} & said_of
    assert b"alice" not in b"".join(collector.raw)


def test_http_call_continues_the_trace_of_its_caller(
    start: Start, traced_settings: Settings, collector: Collector
) -> None:
    traces = [fresh_trace(), fresh_trace()]
    with (
        start(traced_settings.copy_with_changes(http_listen="127.0.0.1:0")) as server,
        httpx.Client(base_url=server.http) as client,
    ):
        for trace in traces:  # over one connection
            answer = client.get("/v1/users/lin/messages", headers={name: str(value) for name, value in of_trace(trace)})
            assert answer.status_code == 200
        for trace in traces:
            spans = collector.trace(trace, "nomemory.v1.QueryService/ListMessages", "list messages")
            assert len(spans) == 2
            (call,) = (span for span in spans if span.parent == CALLER)
            assert call.attributes["nomemory.via"] == "http"


def test_call_without_a_trace_starts_one(start: Start, traced_settings: Settings, collector: Collector) -> None:
    with start(traced_settings) as server:
        QueryServiceStub(grpc.insecure_channel(server.target)).ListMessages(q.ListMessagesRequest(user_id="lin"))
        (call,) = (item for item in collector.wait(lambda spans: len(spans) == 2) if not item.parent)
    assert call.name == "nomemory.v1.QueryService/ListMessages"
    assert call.resource["service.name"] == "nomemory"
