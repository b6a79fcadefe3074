"""Every RPC of the contract with a request for a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import Refusal, refusal

Metadata = tuple[tuple[str, str | bytes], ...]
Send = Callable[[grpc.Channel, str, Metadata], Any]


def bearer(credential: str) -> Metadata:
    """Return the metadata of a bearer credential."""
    return (("authorization", f"Bearer {credential}"),)


def listing(channel: grpc.Channel, user: str, metadata: Metadata = ()) -> q.ListMessagesResponse:
    return QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(user_id=user), metadata=metadata, timeout=10)


def _words(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    request = q.LexicalSearchRequest(user_id=user, query_text="tea")
    return QueryServiceStub(channel).LexicalSearch(request, metadata=metadata, timeout=10)


def _meaning(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    request = q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=[1, 0, 0, 0]))
    return QueryServiceStub(channel).SemanticSearch(request, metadata=metadata, timeout=10)


def _neighbors(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    request = q.GetNeighborsRequest(user_id=user, message_id="m1")
    return QueryServiceStub(channel).GetNeighbors(request, metadata=metadata, timeout=10)


def _batch_get(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    request = q.BatchGetMessagesRequest(user_id=user, message_ids=["m1"])
    return QueryServiceStub(channel).BatchGetMessages(request, metadata=metadata, timeout=10)


def _count(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    return QueryServiceStub(channel).CountMessages(q.CountMessagesRequest(user_id=user), metadata=metadata, timeout=10)


def _conversations(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    request = q.ListConversationsRequest(user_id=user)
    return QueryServiceStub(channel).ListConversations(request, metadata=metadata, timeout=10)


def _export(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    request = q.ExportMessagesRequest(user_id=user)
    return list(QueryServiceStub(channel).ExportMessages(request, metadata=metadata, timeout=10))


def _users(channel: grpc.Channel, user: str, metadata: Metadata) -> object:  # noqa: ARG001 - as its likes
    return QueryServiceStub(channel).ListUsers(q.ListUsersRequest(), metadata=metadata, timeout=10)


def status(channel: grpc.Channel, user: str, metadata: Metadata = ()) -> i.GetIndexStatusResponse:
    request = i.GetIndexStatusRequest(user_id=user)
    return IngestServiceStub(channel).GetIndexStatus(request, metadata=metadata, timeout=10)


def write(channel: grpc.Channel, user: str, metadata: Metadata = ()) -> i.WriteMessagesResponse:
    request = i.WriteMessagesRequest(messages=[new_message(user, "m1", "tea", embedding=(1, 0, 0, 0))])
    return IngestServiceStub(channel).WriteMessages(request, metadata=metadata, timeout=10)


def _import(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    def stream() -> Iterator[i.ImportMessagesRequest]:
        yield i.ImportMessagesRequest(messages=[new_message(user, "m1", "tea", embedding=(1, 0, 0, 0))])

    return IngestServiceStub(channel).ImportMessages(stream(), metadata=metadata, timeout=10)


def _delete(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    request = i.DeleteMessagesRequest(user_id=user, message_ids=["none"])
    return IngestServiceStub(channel).DeleteMessages(request, metadata=metadata, timeout=10)


def _erase(channel: grpc.Channel, user: str, metadata: Metadata) -> object:
    return IngestServiceStub(channel).EraseUser(i.EraseUserRequest(user_id=user), metadata=metadata, timeout=10)


def recall(channel: grpc.Channel, user: str, metadata: Metadata = ()) -> r.RecallResponse:  # noqa: ARG001 - as its likes
    return RecallServiceStub(channel).Recall(r.RecallRequest(question="tea?"), metadata=metadata, timeout=10)


def _stream_recall(channel: grpc.Channel, user: str, metadata: Metadata) -> object:  # noqa: ARG001 - as its likes
    request = r.StreamRecallRequest(question="tea?")
    return list(RecallServiceStub(channel).StreamRecall(request, metadata=metadata, timeout=10))


def _build_context(channel: grpc.Channel, user: str, metadata: Metadata) -> object:  # noqa: ARG001 - as its likes
    request = r.BuildContextRequest(conversation_id="c")
    return RecallServiceStub(channel).BuildContext(request, metadata=metadata, timeout=10)


@dataclass(frozen=True)
class Rpc:
    """An RPC and its scopes, one of which it requires."""

    send: Send
    scopes: frozenset[str]


READS = {
    "ListMessages": Rpc(listing, frozenset({"query"})),
    "LexicalSearch": Rpc(_words, frozenset({"query"})),
    "SemanticSearch": Rpc(_meaning, frozenset({"query"})),
    "GetNeighbors": Rpc(_neighbors, frozenset({"query"})),
    "BatchGetMessages": Rpc(_batch_get, frozenset({"query"})),
    "CountMessages": Rpc(_count, frozenset({"query"})),
    "ListConversations": Rpc(_conversations, frozenset({"query"})),
    "ExportMessages": Rpc(_export, frozenset({"query"})),
    "GetIndexStatus": Rpc(status, frozenset({"query", "admin"})),
}
WRITES = {
    "WriteMessages": Rpc(write, frozenset({"ingest"})),
    "ImportMessages": Rpc(_import, frozenset({"ingest"})),
    "DeleteMessages": Rpc(_delete, frozenset({"ingest"})),
    "EraseUser": Rpc(_erase, frozenset({"ingest"})),
}
ADMINISTERS = {"ListUsers": Rpc(_users, frozenset({"admin"}))}
RECALLS = {
    "Recall": Rpc(recall, frozenset({"recall"})),
    "StreamRecall": Rpc(_stream_recall, frozenset({"recall"})),
    "BuildContext": Rpc(_build_context, frozenset({"recall"})),
}
EVERY = READS | WRITES | ADMINISTERS | RECALLS


def refused(send: Send, channel: grpc.Channel, user: str, metadata: Metadata = ()) -> Refusal:
    """Make a call that must be rejected, and return its error."""
    with pytest.raises(grpc.RpcError) as error:
        send(channel, user, metadata)
    return refusal(error.value)
