"""Tests for both clients with a scripted server: calls, errors and retries."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from client.scripted_server import REQUEST_ID, Scripted
from google.protobuf.message import Message

from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError, Violation
from nomemory.client.messages import chat_message
from nomemory.client.sync import Client
from nomemory.server.faults import Fault, Reason, build_field_fault
from nomemory.server.faults import Violation as BadField
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

MESSAGE = chat_message(user_id="ann", ts=datetime(2024, 5, 1, tzinfo=UTC), role="user", content="hi", message_id="m1")

Call = Callable[..., Any]


def blocking(target: str, method: str, *args: object, **options: Any) -> Any:  # noqa: ANN401 - either client's own
    with Client(target, **options) as client:
        answer = getattr(client, method)(*args)
        return list(answer) if isinstance(answer, Iterator) else answer


def awaited(target: str, method: str, *args: object, **options: Any) -> Any:  # noqa: ANN401 - as above
    async def call() -> object:
        async with AsyncClient(target, **options) as client:
            answer = getattr(client, method)(*args)
            return [item async for item in answer] if hasattr(answer, "__aiter__") else await answer

    return asyncio.run(call())


@pytest.fixture(params=[blocking, awaited])
def call(request: pytest.FixtureRequest) -> Call:
    """Call a method of either client."""
    chosen: Call = request.param
    return chosen


CALLS: list[tuple[str, tuple[Any, ...], str, Message, Message]] = [
    (
        "write",
        ([MESSAGE],),
        "WriteMessages",
        ingest_service_pb2.WriteMessagesRequest(messages=[MESSAGE]),
        ingest_service_pb2.WriteMessagesResponse(results=[ingest_service_pb2.WriteResult(message_id="m1")]),
    ),
    (
        "import_messages",
        ([MESSAGE],),
        "ImportMessages",
        ingest_service_pb2.ImportMessagesRequest(messages=[MESSAGE]),
        ingest_service_pb2.ImportMessagesResponse(created=1),
    ),
    (
        "delete",
        ("ann", ["m1"]),
        "DeleteMessages",
        ingest_service_pb2.DeleteMessagesRequest(user_id="ann", message_ids=["m1"]),
        ingest_service_pb2.DeleteMessagesResponse(deleted=1),
    ),
    (
        "list_messages",
        ("ann",),
        "ListMessages",
        query_service_pb2.ListMessagesRequest(user_id="ann", filter=message_pb2.Filter()),
        query_service_pb2.ListMessagesResponse(items=[MESSAGE], next_cursor="c"),
    ),
    (
        "list_conversations",
        ("ann",),
        "ListConversations",
        query_service_pb2.ListConversationsRequest(user_id="ann"),
        query_service_pb2.ListConversationsResponse(next_cursor="c"),
    ),
    (
        "lexical_search",
        ("ann", "tea"),
        "LexicalSearch",
        query_service_pb2.LexicalSearchRequest(user_id="ann", query_text="tea", filter=message_pb2.Filter()),
        query_service_pb2.LexicalSearchResponse(items=[MESSAGE], scores=[query_service_pb2.MessageScore(score=0.5)]),
    ),
    (
        "semantic_search",
        ("ann", "tea"),
        "SemanticSearch",
        query_service_pb2.SemanticSearchRequest(user_id="ann", query_text="tea", filter=message_pb2.Filter()),
        query_service_pb2.SemanticSearchResponse(embedding_model="m"),
    ),
    (
        "hybrid_search",
        ("ann", "tea?"),
        "HybridSearch",
        query_service_pb2.HybridSearchRequest(user_id="ann", query_text="tea?", filter=message_pb2.Filter()),
        query_service_pb2.HybridSearchResponse(sufficiency=0.5),
    ),
    (
        "neighbors",
        ("ann", "m1"),
        "GetNeighbors",
        query_service_pb2.GetNeighborsRequest(user_id="ann", message_id="m1"),
        query_service_pb2.GetNeighborsResponse(items=[MESSAGE]),
    ),
    (
        "batch_get",
        ("ann", ["m1"]),
        "BatchGetMessages",
        query_service_pb2.BatchGetMessagesRequest(user_id="ann", message_ids=["m1"]),
        query_service_pb2.BatchGetMessagesResponse(items=[MESSAGE]),
    ),
    (
        "status",
        ("ann",),
        "GetIndexStatus",
        ingest_service_pb2.GetIndexStatusRequest(user_id="ann"),
        ingest_service_pb2.GetIndexStatusResponse(),
    ),
    (
        "server_info",
        (),
        "GetServerInfo",
        server_service_pb2.GetServerInfoRequest(),
        server_service_pb2.GetServerInfoResponse(version="0.2.0"),
    ),
    (
        "recall",
        ("tea?",),
        "Recall",
        recall_service_pb2.RecallRequest(question="tea?", context=recall_service_pb2.RecallContext()),
        recall_service_pb2.RecallResponse(verdict=recall_service_pb2.VERDICT_SUPPORTED),
    ),
]
STREAMED = recall_service_pb2.StreamRecallResponse(
    result=recall_service_pb2.RecallResponse(verdict=recall_service_pb2.VERDICT_SUPPORTED)
)


@pytest.mark.parametrize(("method", "args", "rpc", "request_", "reply"), CALLS, ids=[name for name, *_ in CALLS])
def test_method_sends_its_request_and_returns_the_reply(
    call: Call, script: Scripted, method: str, args: tuple[Any, ...], rpc: str, request_: Message, reply: Message
) -> None:
    script.will(rpc, reply)
    assert call(script.target, method, *args) == reply
    assert script.requests == [request_]


@pytest.mark.parametrize(("method", "args", "rpc", "request_", "reply"), CALLS, ids=[name for name, *_ in CALLS])
def test_unavailable_call_is_retried(
    call: Call, script: Scripted, method: str, args: tuple[Any, ...], rpc: str, request_: Message, reply: Message
) -> None:
    script.will(rpc, grpc.StatusCode.UNAVAILABLE, reply)
    assert call(script.target, method, *args, attempts=2) == reply
    assert script.requests == [request_, request_]


def test_streamed_recall_unavailable_before_its_first_event_is_retried(call: Call, script: Scripted) -> None:
    script.will("StreamRecall", grpc.StatusCode.UNAVAILABLE, STREAMED)
    assert call(script.target, "stream_recall", "tea?", attempts=2) == [STREAMED]
    assert len(script.requests) == 2


METHODS: list[tuple[str, tuple[Any, ...]]] = [
    *((method, args) for method, args, *_ in CALLS),
    ("iter_messages", ("ann",)),
    ("iter_lexical", ("ann", "tea")),
    ("stream_recall", ("tea?",)),
    ("count_messages", ("ann",)),
    ("iter_conversations", ("ann",)),
    ("list_users", ()),
    ("iter_users", ()),
    ("export_messages", ("ann",)),
]


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize(("method", "args"), METHODS, ids=[name for name, _ in METHODS])
async def test_unknown_method_option_is_rejected_before_sending(
    client: type[Client | AsyncClient], script: Scripted, method: str, args: tuple[Any, ...]
) -> None:
    asking = getattr(client(script.target), method)
    with pytest.raises(TypeError, match="'conversation'"):
        await asking(*args, conversation="c1")
    assert script.requests == []


@pytest.mark.parametrize(("method", "args"), METHODS, ids=[name for name, _ in METHODS])
async def test_sync_and_async_methods_have_equal_signatures_and_docstrings(
    script: Scripted, method: str, args: tuple[Any, ...]
) -> None:
    with Client(script.target) as client:
        blocking_one, awaited_one = getattr(client, method), getattr(AsyncClient(script.target), method)
        assert blocking_one.__doc__ == awaited_one.__doc__
        assert list(inspect.signature(blocking_one).parameters) == list(inspect.signature(awaited_one).parameters)
        inspect.signature(blocking_one).bind(*args)


BATCH = query_service_pb2.ExportMessagesResponse(messages=[MESSAGE], next_cursor="c")


def test_count_returns_an_integer(call: Call, script: Scripted) -> None:
    script.will("CountMessages", query_service_pb2.CountMessagesResponse(count=7))
    assert call(script.target, "count_messages", "ann") == 7
    assert script.requests == [query_service_pb2.CountMessagesRequest(user_id="ann", filter=message_pb2.Filter())]


def test_export_yields_its_batches(call: Call, script: Scripted) -> None:
    script.will("ExportMessages", grpc.StatusCode.UNAVAILABLE, BATCH)
    assert call(script.target, "export_messages", "ann", attempts=2) == [BATCH]
    assert script.requests[1:] == [query_service_pb2.ExportMessagesRequest(user_id="ann", filter=message_pb2.Filter())]


def test_users_and_conversations_are_read_to_the_end(call: Call, script: Scripted) -> None:
    ann, ben = query_service_pb2.UserSummary(user_id="ann"), query_service_pb2.UserSummary(user_id="ben")
    pages = [
        query_service_pb2.ListUsersResponse(users=[ann], next_cursor="c"),
        query_service_pb2.ListUsersResponse(users=[ben]),
    ]
    script.will("ListUsers", *pages)
    assert call(script.target, "iter_users") == [ann, ben]
    assert script.requests == [query_service_pb2.ListUsersRequest(), query_service_pb2.ListUsersRequest(cursor="c")]
    talk = query_service_pb2.Conversation(conversation_id="c1")
    script.will("ListConversations", query_service_pb2.ListConversationsResponse(conversations=[talk]))
    assert call(script.target, "iter_conversations", "ann") == [talk]


def test_unknown_client_option_is_rejected(call: Call) -> None:
    with pytest.raises(TypeError, match="'apikey'"):
        call("127.0.0.1:9", "status", apikey="k")


def test_retried_write_without_ids_has_the_same_request_id(call: Call, script: Scripted) -> None:
    script.will("WriteMessages", grpc.StatusCode.UNAVAILABLE, ingest_service_pb2.WriteMessagesResponse())
    without_id = message_pb2.ChatMessage(user_id="ann", content="hi")
    call(script.target, "write", [without_id])
    first, second = script.requests
    assert isinstance(first, ingest_service_pb2.WriteMessagesRequest)
    assert first.request_id
    assert first == second


def test_large_write_is_retried(call: Call, script: Scripted) -> None:
    script.will("WriteMessages", grpc.StatusCode.UNAVAILABLE, ingest_service_pb2.WriteMessagesResponse())
    call(script.target, "write", [message_pb2.ChatMessage(user_id="ann", message_id="m", content="a" * 2_000_000)])
    assert len(script.requests) == 2


def test_attempts_are_limited(call: Call, script: Scripted) -> None:
    script.will("GetIndexStatus", grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(NoMemoryError):
        call(script.target, "status", attempts=1)
    assert len(script.requests) == 1


def test_only_unavailable_is_retried(call: Call, script: Scripted) -> None:
    script.will("GetIndexStatus", Fault(Reason.ERROR_REASON_OVERLOADED, "too much", retry_after_s=2.5))
    with pytest.raises(NoMemoryError) as caught:
        call(script.target, "status")
    assert len(script.requests) == 1
    assert caught.value.retry_after == 2.5
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_error_has_all_details_of_the_server(call: Call, script: Scripted) -> None:
    bad = (BadField("page_size", "must be at most 500"), BadField("user_id", "is required"))
    script.will("ListMessages", build_field_fault(Reason.ERROR_REASON_INVALID_FIELD, *bad))
    with pytest.raises(NoMemoryError) as caught:
        call(script.target, "list_messages", "")
    error = caught.value
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert error.reason == "ERROR_REASON_INVALID_FIELD"
    assert error.violations == (Violation("page_size", "must be at most 500"), Violation("user_id", "is required"))
    assert error.message == "page_size: must be at most 500; user_id: is required"
    assert error.request_id == REQUEST_ID
    assert error.retry_after is None
    assert str(error) == f"INVALID_ARGUMENT: {error.message}"


def test_failed_import_reports_the_reason(call: Call, script: Scripted) -> None:
    script.will("ImportMessages", Fault(Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the disk is full"))
    with pytest.raises(NoMemoryError, match="the disk is full"):
        call(script.target, "import_messages", [MESSAGE], attempts=1)


def test_error_without_details_is_raised(call: Call, script: Scripted) -> None:
    script.will("ListMessages", grpc.StatusCode.PERMISSION_DENIED)
    with pytest.raises(NoMemoryError) as caught:
        call(script.target, "list_messages", "ann")
    assert (caught.value.reason, caught.value.request_id) == ("", "")
    assert caught.value.code is grpc.StatusCode.PERMISSION_DENIED


def test_unreachable_server_is_unavailable(call: Call) -> None:
    with pytest.raises(NoMemoryError) as caught:
        call("127.0.0.1:9", "status", attempts=1)
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    assert not caught.value.reason


def test_metadata_is_sent_with_every_call(call: Call, script: Scripted) -> None:
    script.will("GetIndexStatus", ingest_service_pb2.GetIndexStatusResponse())
    script.will("ImportMessages", ingest_service_pb2.ImportMessagesResponse())
    for method, args in (("status", ()), ("import_messages", ([MESSAGE],))):
        call(script.target, method, *args, metadata=[("authorization", "Bearer key")])
    assert [sent["authorization"] for sent in script.metadata] == ["Bearer key", "Bearer key"]


def test_recall_user_is_sent_as_metadata(script: Scripted) -> None:
    script.will("Recall", recall_service_pb2.RecallResponse())
    script.will("StreamRecall", STREAMED)
    with Client(script.target) as client:
        client.recall("tea?", user_id="ann")
        list(client.stream_recall("tea?", user_id="安"))
        client.recall("tea?")
    named = [{key: sent[key] for key in sent if str(key).startswith("x-user-id")} for sent in script.metadata]
    assert named == [{"x-user-id": "ann"}, {"x-user-id-bin": "安".encode()}, {}]


def test_iterating_follows_the_cursors(call: Call, script: Scripted) -> None:
    script.will(
        "ListMessages",
        query_service_pb2.ListMessagesResponse(items=[MESSAGE, MESSAGE], next_cursor="c_2"),
        query_service_pb2.ListMessagesResponse(next_cursor="c_3"),
        query_service_pb2.ListMessagesResponse(items=[MESSAGE]),
    )
    assert call(script.target, "iter_messages", "ann") == [MESSAGE] * 3
    list_requests = [r for r in script.requests if isinstance(r, query_service_pb2.ListMessagesRequest)]
    assert [request.cursor for request in list_requests] == ["", "c_2", "c_3"]


def test_iterating_a_search_yields_each_message_with_its_score(call: Call, script: Scripted) -> None:
    marked = query_service_pb2.Highlight(snippet_text="hi")
    script.will(
        "LexicalSearch",
        query_service_pb2.LexicalSearchResponse(
            items=[MESSAGE], scores=[query_service_pb2.MessageScore(score=2.0)], highlights=[marked], next_cursor="c_2"
        ),
        query_service_pb2.LexicalSearchResponse(items=[MESSAGE], scores=[query_service_pb2.MessageScore(score=1.0)]),
    )
    hits = call(script.target, "iter_lexical", "ann", "hi")
    assert [(hit.message, hit.score) for hit in hits] == [(MESSAGE, 2.0), (MESSAGE, 1.0)]
    assert [hit.highlight for hit in hits] == [marked, None]
