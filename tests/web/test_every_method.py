"""Tests that every method of the contract is served over HTTP with the gRPC response."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from identity.contract import METHODS, RpcMethod
from web.transcoding import replies, send

from nomemory.v1 import ingest_service_pb2 as ingest
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as query
from nomemory.v1 import recall_service_pb2 as recall
from nomemory.v1 import server_service_pb2 as server_service

if TYPE_CHECKING:
    from web.http_server import Web

OF_THE_MOMENT = frozenset(
    {"write_token", "sequence", "checkpoint", "elapsed", "erase_ts", "expire_ts", "reads", "arguments", "next_cursor"}
)
"""Fields that differ from call to call."""
VECTOR = query.Embedding(values=[0.5, -0.25, 1.0, 0.125])


def message(user: str, number: int, content: str) -> message_pb2.ChatMessage:
    chat_message = message_pb2.ChatMessage(
        message_id=f"m-{number}/é", user_id=user, role=message_pb2.ROLE_USER, content=content, name="Ann",
        conversation_id="talk", metadata={"topic": "food"}, embedding=[1.0, 0.5, 0.25, number],
    )  # fmt: skip
    chat_message.ts.FromDatetime(datetime(2026, 3, 1, 8, 0, number, 123456, tzinfo=UTC))
    return chat_message


def message_filter() -> message_pb2.Filter:
    filter_ = message_pb2.Filter(role=message_pb2.ROLE_USER, conversation_id="talk", metadata={"topic": "food"})
    filter_.time_range.since.FromJsonString("2026-03-01T00:00:00Z")
    return filter_


def written(user: str) -> list[message_pb2.ChatMessage]:
    contents = ["I never eat anything spicy.", "我不吃辣，也不吃香菜。", 'Tabs\tand "quotes" and \x01']
    return [message(user, number, content) for number, content in enumerate(contents)]


def question() -> recall.RecallRequest:
    request = recall.RecallRequest(question="What do I never eat?", question_embedding=VECTOR, include_trace=True)
    request.context.now.FromJsonString("2026-04-01T00:00:00Z")
    return request


REQUESTS: dict[str, Callable[[str], ProtoMessage]] = {
    "WriteMessages": lambda user: ingest.WriteMessagesRequest(messages=written(user), request_id="r"),
    "ImportMessages": lambda user: ingest.ImportMessagesRequest(messages=written(user), replace=True),
    "DeleteMessages": lambda user: ingest.DeleteMessagesRequest(user_id=user, message_ids=["m-9", "gone"]),
    "EraseUser": lambda user: ingest.EraseUserRequest(user_id=f"{user}-nobody"),
    "GetIndexStatus": lambda user: ingest.GetIndexStatusRequest(user_id=user),
    "ListMessages": lambda user: query.ListMessagesRequest(
        user_id=user, filter=message_filter(), page_size=2, order=query.LIST_ORDER_OLDEST_FIRST
    ),
    "LexicalSearch": lambda user: query.LexicalSearchRequest(
        user_id=user, query_text='"不吃辣" OR spicy', highlight=query.HighlightOptions(snippet_chars=40)
    ),
    "SemanticSearch": lambda user: query.SemanticSearchRequest(
        user_id=user, query_embedding=VECTOR, top_k=3, min_score=-1.0
    ),
    "HybridSearch": lambda user: query.HybridSearchRequest(
        user_id=user, query_text="What do I never eat?", query_embedding=VECTOR, explain=True, include_relations=True
    ),
    "GetNeighbors": lambda user: query.GetNeighborsRequest(user_id=user, message_id="m-1/é", before=0, after=5),
    "BatchGetMessages": lambda user: query.BatchGetMessagesRequest(
        user_id=user, message_ids=["m-2/é", "a&b=c", "m-2/é"]
    ),
    "CountMessages": lambda user: query.CountMessagesRequest(user_id=user, filter=message_filter()),
    "ListConversations": lambda user: query.ListConversationsRequest(user_id=user, page_size=1),
    "ListUsers": lambda _user: query.ListUsersRequest(page_size=500),
    "ExportMessages": lambda user: query.ExportMessagesRequest(user_id=user, filter=message_filter()),
    "Recall": lambda _user: question(),
    "StreamRecall": lambda _user: recall.StreamRecallRequest.FromString(question().SerializeToString()),
    "BuildContext": lambda _user: recall.BuildContextRequest(
        turns=[recall.Turn(role=message_pb2.ROLE_USER, text="Is that spicy?")], exclude_conversation_ids=["c", "d"]
    ),
    "GetServerInfo": lambda _user: server_service.GetServerInfoRequest(),
}


@pytest.fixture(scope="module")
def speaker(web: Web) -> str:
    """A user with indexed messages and an id that must be escaped in paths."""
    user = "space/ann & 林?"
    token = web.server.ingest.WriteMessages(ingest.WriteMessagesRequest(messages=written(user))).write_token
    web.server.query.HybridSearch(
        query.HybridSearchRequest(user_id=user, query_text="spicy", query_embedding=VECTOR, at_least=token)
    )
    return user


def remove_run_specific_fields(reply: ProtoMessage) -> ProtoMessage:
    for field, value in list(reply.ListFields()):
        if field.name in OF_THE_MOMENT:
            reply.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for item in value if field.is_repeated else [value]:
                remove_run_specific_fields(item)
    return reply


def over_grpc(web: Web, method: RpcMethod, request: ProtoMessage, metadata: dict[str, bytes]) -> list[Any]:
    with grpc.insecure_channel(web.server.target) as channel:
        return method.send(channel, request, tuple(metadata.items()))


def test_every_method_has_an_example_request() -> None:
    assert set(REQUESTS) == set(METHODS)


@pytest.mark.parametrize("name", REQUESTS)
def test_http_response_equals_grpc_response(web: Web, speaker: str, name: str) -> None:
    method, request = METHODS[name], REQUESTS[name](speaker)
    expected = over_grpc(web, method, request, {"x-user-id-bin": speaker.encode()})
    http_replies = replies(method, send(web.client, method, request, {"x-user-id": speaker.encode()}))  # type: ignore[dict-item]
    assert list(map(remove_run_specific_fields, http_replies)) == list(map(remove_run_specific_fields, expected))


def test_export_lines_can_be_imported(web: Web, user: str) -> None:
    messages = [
        {"user_id": user, "role": "ROLE_USER", "ts": f"2026-03-0{day}T08:00:00Z", "content": "x"} for day in (1, 2)
    ]
    web.client.post("/v1/messages", json={"messages": messages})
    lines = web.client.get(f"/v1/users/{user}/messages:export", headers={"accept": "application/x-ndjson"})
    assert lines.headers["content-type"] == "application/x-ndjson"
    done = web.client.post(
        "/v1/messages:import", content=lines.content, headers={"content-type": "application/x-ndjson"}
    )
    assert done.json()["unchanged"] == "2"


def test_request_may_use_short_enum_names(web: Web, user: str) -> None:
    messages = [{"role": "user", "content": "I moved to Basel."}, {"role": "assistant", "content": "Noted."}]
    written = web.client.post("/v1/messages", json={"messages": [{"userId": user, **item} for item in messages]}).json()
    at_least = {"atLeast": written["writeToken"]}
    listed = web.client.get(f"/v1/users/{user}/messages", params={"filter.role": "user", "order": "oldest_first"})
    assert [item["role"] for item in listed.json()["items"]] == ["ROLE_USER"], "responses have the full enum name"
    for role in ("user", "ROLE_USER"):
        search = {"userId": user, "queryText": "Basel OR noted", "filter": {"role": role}, **at_least}
        reply = web.client.post("/v1/messages/lexical_search", json=search).json()
        assert [item["content"] for item in reply["items"]] == ["I moved to Basel."]
