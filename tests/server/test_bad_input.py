"""Tests that invalid input is INVALID_ARGUMENT with every violation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.timestamp_pb2 import Timestamp

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server


def write(**fields: object) -> i.WriteMessagesRequest:
    return i.WriteMessagesRequest(messages=[new_message("u", "a", "x", **fields)])  # type: ignore[arg-type]


def at(seconds: int) -> Timestamp:
    return Timestamp(seconds=seconds)


WRITES = {
    "no messages": (i.WriteMessagesRequest(), ["messages"]),
    "too many messages": (i.WriteMessagesRequest(messages=[new_message("u", "a", "x")] * 1001), ["messages"]),
    "everything missing": (
        i.WriteMessagesRequest(messages=[m.ChatMessage()]),
        ["messages[0].user_id", "messages[0].role", "messages[0].content"],
    ),
    "blank ids": (
        i.WriteMessagesRequest(messages=[new_message("  ", "\t", "x", conversation_id=" ")]),
        ["messages[0].user_id", "messages[0].message_id", "messages[0].conversation_id"],
    ),
    "NUL everywhere": (
        i.WriteMessagesRequest(messages=[new_message("u\0", "a\0", "x\0", name="n\0", metadata={"k\0": "v\0"})]),
        [
            "messages[0].user_id",
            "messages[0].message_id",
            "messages[0].content",
            "messages[0].name",
            "messages[0].metadata",
            "messages[0].metadata",
        ],
    ),
    "1.3 MB of content": (
        i.WriteMessagesRequest(messages=[new_message("u", "a", "x" * 1_300_000)]),
        ["messages[0].content", "messages[0].content"],
    ),
    "blank content": (i.WriteMessagesRequest(messages=[new_message("u", "a", " \n")]), ["messages[0].content"]),
    "unknown role": (write(role=17), ["messages[0].role"]),
    "ids too long": (
        i.WriteMessagesRequest(messages=[new_message("u" * 129, "a" * 129, "x")], request_id="r" * 129),
        [
            "request_id",
            "messages[0].user_id",
            "messages[0].message_id",
        ],
    ),
    "too much metadata": (write(metadata={str(n): "v" for n in range(33)}), ["messages[0].metadata"]),
    "wrong dimension": (write(embedding=[1.0]), ["messages[0].embedding"]),
    "NaN": (write(embedding=[math.nan, 0, 0, 0]), ["messages[0].embedding"]),
    "infinite": (write(embedding=[math.inf, 0, 0, 0]), ["messages[0].embedding"]),
    "zero vector": (write(embedding=[0, 0, 0, 0]), ["messages[0].embedding"]),
    "impossible time": (
        i.WriteMessagesRequest(
            messages=[m.ChatMessage(user_id="u", content="x", role=m.ROLE_USER, ts=Timestamp(nanos=-1))]
        ),
        ["messages[0].ts"],
    ),
    "only the bad of two": (
        i.WriteMessagesRequest(messages=[new_message("u", "fine", "x"), new_message("u", "a", "")]),
        ["messages[1].content"],
    ),
}

BACKWARDS = m.Filter(time_range=m.TimeRange(since=at(2), until=at(1)), role=9, conversation_id="\n")  # type: ignore[arg-type]
BACKWARDS_FIELDS = ["filter.time_range", "filter.role", "filter.conversation_id"]

CROWDED = m.Filter(role=9, metadata={" ": "blank", **{f"{n}": "x" * 1025 for n in range(4)}})  # type: ignore[arg-type]
CROWDED_FIELDS = ["filter.role", *["filter.metadata"] * 3]

EXCLUDING = m.Filter(exclude_conversation_ids=["", "c" * 129, "a\nb", *(f"c{n}" for n in range(14))])
EXCLUDING_FIELDS = [
    "filter.exclude_conversation_ids",
    *(f"filter.exclude_conversation_ids[{position}]" for position in range(3)),
]

READS = {
    "list, excluded": (q.ListMessagesRequest(filter=EXCLUDING), ["user_id", *EXCLUDING_FIELDS]),
    "lexical, excluded": (q.LexicalSearchRequest(filter=EXCLUDING, query_text="a"), ["user_id", *EXCLUDING_FIELDS]),
    "semantic, excluded": (q.SemanticSearchRequest(filter=EXCLUDING, query_text="a"), ["user_id", *EXCLUDING_FIELDS]),
    "hybrid, excluded": (q.HybridSearchRequest(filter=EXCLUDING, query_text="a"), ["user_id", *EXCLUDING_FIELDS]),
    "excluded, the most": (
        q.ListMessagesRequest(
            page_size=-1, user_id="u", filter=m.Filter(exclude_conversation_ids=[f"c{n:0127}" for n in range(16)])
        ),
        ["page_size"],
    ),
    "list, metadata": (q.ListMessagesRequest(filter=CROWDED), ["user_id", *CROWDED_FIELDS]),
    "lexical, metadata": (q.LexicalSearchRequest(filter=CROWDED, query_text="a"), ["user_id", *CROWDED_FIELDS]),
    "semantic, metadata": (q.SemanticSearchRequest(filter=CROWDED, query_text="a"), ["user_id", *CROWDED_FIELDS]),
    "hybrid, metadata": (q.HybridSearchRequest(filter=CROWDED, query_text="a"), ["user_id", *CROWDED_FIELDS]),
    "metadata, the longest": (
        q.ListMessagesRequest(page_size=-1, user_id="u", filter=m.Filter(metadata={"k" * 64: "v" * 1024})),
        ["page_size"],
    ),
    "metadata, too long": (
        q.ListMessagesRequest(user_id="u", filter=m.Filter(metadata={"k" * 65: "v" * 1025})),
        ["filter.metadata", "filter.metadata"],
    ),
    "metadata, NUL": (
        q.ListMessagesRequest(user_id="u", filter=m.Filter(metadata={"k\0": "v\0"})),
        ["filter.metadata", "filter.metadata"],
    ),
    "list": (
        q.ListMessagesRequest(page_size=-1, filter=BACKWARDS, return_fields=FieldMask(paths=["contents"])),
        ["user_id", *BACKWARDS_FIELDS, "page_size", "return_fields"],
    ),
    "list, page too large": (q.ListMessagesRequest(user_id="u", page_size=501), ["page_size"]),
    "lexical": (
        q.LexicalSearchRequest(
            query_text="a\0", page_size=-1, filter=BACKWARDS, highlight=q.HighlightOptions(snippet_chars=-1)
        ),
        ["user_id", "query_text", *BACKWARDS_FIELDS, "page_size", "highlight.snippet_chars"],
    ),
    "lexical, too long": (q.LexicalSearchRequest(user_id="u", query_text="词" * 32_001), ["query_text"]),
    "lexical, too deep": (q.LexicalSearchRequest(user_id="u", query_text="(a " * 17 + ")" * 17), ["query_text"]),
    "semantic without a query": (
        q.SemanticSearchRequest(top_k=-1, min_score=1.5, filter=BACKWARDS),
        ["user_id", "query", *BACKWARDS_FIELDS, "top_k", "min_score"],
    ),
    "semantic, blank": (q.SemanticSearchRequest(user_id="u", query_text=" "), ["query_text"]),
    "semantic, top_k too large": (q.SemanticSearchRequest(user_id="u", query_text="x", top_k=201), ["top_k"]),
    "semantic, NaN": (
        q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=[math.nan, 0, 0, 0])),
        ["query_embedding.values"],
    ),
    "semantic, zero": (
        q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=[0, 0, 0, 0])),
        ["query_embedding.values"],
    ),
    "semantic, wrong dimension": (
        q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=[1, 2, 3])),
        ["query_embedding.values"],
    ),
    "neighbors": (q.GetNeighborsRequest(before=-1, after=201), ["user_id", "message_id", "before", "after"]),
    "batch get, nothing": (q.BatchGetMessagesRequest(user_id="u"), ["message_ids"]),
    "batch get, blank": (q.BatchGetMessagesRequest(user_id="u", message_ids=["a", ""]), ["message_ids[1]"]),
}


def method_for(server: Server, request: ProtoMessage) -> Any:  # noqa: ANN401 - each stub method has its own types
    name = request.DESCRIPTOR.name.removesuffix("Request")
    return getattr(server.query, name, None) or getattr(server.ingest, name)


@pytest.mark.parametrize("case", [*WRITES, *READS])
def test_every_violation_is_reported(vector_server: Server, case: str) -> None:
    request, fields = {**WRITES, **READS}[case]
    with pytest.raises(grpc.RpcError) as error:
        method_for(vector_server, request)(request)
    refused = refusal(error.value)
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.fields == fields


def test_rejected_batch_stores_nothing(vector_server: Server, user: str) -> None:
    with pytest.raises(grpc.RpcError):
        vector_server.ingest.WriteMessages(
            i.WriteMessagesRequest(messages=[new_message(user, "a", "x"), new_message(user, "b", "")])
        )
    assert not vector_server.query.ListMessages(q.ListMessagesRequest(user_id=user)).items


def sent_as_bytes(server: Server, method: str, request: bytes) -> grpc.RpcError:
    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.unary_unary(f"/nomemory.v1.{method}")
        with pytest.raises(grpc.RpcError) as error:
            call(request)
    return error.value


def test_lone_surrogate_is_rejected(vector_server: Server) -> None:
    lone_surrogate = b"\x0a\x03\xed\xa0\x80"  # user_id = U+D800, encoded in bytes that UTF-8 forbids
    refused = refusal(sent_as_bytes(vector_server, "QueryService/ListMessages", lone_surrogate))
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")
    assert "ListMessagesRequest" in refused.text


def test_malformed_message_bytes_are_rejected(vector_server: Server) -> None:
    error = sent_as_bytes(vector_server, "IngestService/WriteMessages", b"\xff\xff\xff")
    assert refusal(error).reason == "MALFORMED_REQUEST"


def test_too_complex_query_has_its_own_reason(vector_server: Server) -> None:
    with pytest.raises(grpc.RpcError) as error:
        vector_server.query.LexicalSearch(q.LexicalSearchRequest(user_id="u", query_text="(a " * 17 + ")" * 17))
    assert refusal(error.value).reason == "QUERY_TOO_COMPLEX"


def test_semantic_search_for_text_requires_an_embedder(vector_server: Server) -> None:
    with pytest.raises(grpc.RpcError) as error:
        vector_server.query.SemanticSearch(q.SemanticSearchRequest(user_id="u", query_text="hello"))
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "EMBEDDER_DISABLED")


def test_unknown_anchor_is_not_found(vector_server: Server, user: str) -> None:
    with pytest.raises(grpc.RpcError) as error:
        vector_server.query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="nobody"))
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND")
