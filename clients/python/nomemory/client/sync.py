"""The blocking client."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc

from nomemory.client import channel, errors, lifecycle, requests
from nomemory.client.base import BaseClient
from nomemory.client.messages import LexicalHit, Writable, lexical_hits
from nomemory.client.options import (
    HybridOptions,
    LexicalOptions,
    ListOptions,
    Narrowing,
    NeighborOptions,
    RecallOptions,
    SemanticOptions,
)
from nomemory.v1 import (
    ingest_service_pb2,
    ingest_service_pb2_grpc,
    message_pb2,
    query_service_pb2,
    query_service_pb2_grpc,
    recall_service_pb2,
    recall_service_pb2_grpc,
    server_service_pb2,
    server_service_pb2_grpc,
)

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")
_Listing = TypeVar("_Listing", bound=requests.Listing)
_Page = TypeVar("_Page", bound=requests.Page)


class Client(BaseClient):
    """Reads and writes messages over one channel, which threads may share. Close it, or use it in a `with`.

    Methods answer with the contract's own messages and raise `NoMemoryError`. A call that meets UNAVAILABLE is sent
    again; a stream only until something of it has arrived. Times are datetimes with a time zone, or RFC 3339 texts.

    Args:
        target: HOST:PORT.
        api_key: a service's key.
        token: a user's token; not beside a key.
        tls: talk TLS, and trust the well-known authorities. A file below implies it.
        tls_ca: a PEM file of authorities to trust instead.
        tls_cert: a PEM file with the caller's own certificate.
        tls_key: a PEM file with the key of that certificate.
        credentials: of a channel made by the caller, in place of the TLS options.
        metadata: sent with every call.
        timeout: seconds that a call may take, retries included; imports and exports have their own.
        import_timeout: seconds that one import or export may take.
        attempts: how often a call is sent at most, 1 to 5.

    Raises:
        OSError: a file for TLS cannot be read.
        ValueError: options that exclude each other, or `attempts` out of range.
    """

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        self._channel = channel.open_sync(target, credentials, attempts)
        self._query = query_service_pb2_grpc.QueryServiceStub(self._channel)
        self._ingest = ingest_service_pb2_grpc.IngestServiceStub(self._channel)
        self._recall = recall_service_pb2_grpc.RecallServiceStub(self._channel)
        self._server = server_service_pb2_grpc.ServerServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel. Calls in flight fail."""
        self._channel.close()

    def write(
        self, messages: Iterable[Writable], *, replace: bool = False, request_id: str = ""
    ) -> ingest_service_pb2.WriteMessagesResponse:
        """Store up to 1,000 messages, all or nothing: dictionaries, or what `chat_message` makes."""
        return self._call(self._ingest.WriteMessages, requests.write(messages, replace=replace, request_id=request_id))

    def import_messages(
        self, messages: Iterable[Writable], *, replace: bool = False
    ) -> ingest_service_pb2.ImportMessagesResponse:
        """Store any number of messages in batches. Refused ones are reported and skipped."""
        try:
            return self._ingest.ImportMessages(
                requests.import_batches(messages, replace=replace),
                timeout=self._import_timeout,
                metadata=self._metadata,
            )
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None

    def delete(self, user_id: str, message_ids: Iterable[str]) -> ingest_service_pb2.DeleteMessagesResponse:
        """Delete up to 1,000 messages of a user."""
        return self._call(self._ingest.DeleteMessages, requests.delete(user_id, message_ids))

    def delete_matching(
        self, user_id: str, **narrowing: Unpack[Narrowing]
    ) -> ingest_service_pb2.DeleteMessagesResponse:
        """Delete all messages of a user for which everything holds that is set; something must be."""
        request = requests.delete_matching(user_id, **narrowing)
        return self._call(self._ingest.DeleteMessages, request)

    def erase_user(self, user_id: str) -> ingest_service_pb2.EraseUserResponse:
        """Delete everything of a user. The receipt says what still holds bytes of it."""
        return self._call(self._ingest.EraseUser, requests.erase_user(user_id))

    def list_messages(self, user_id: str, **options: Unpack[ListOptions]) -> query_service_pb2.ListMessagesResponse:
        """Read a page by time, newest first or oldest first."""
        return self._call(self._query.ListMessages, requests.list_messages(user_id, **options))

    def iter_messages(self, user_id: str, **options: Unpack[ListOptions]) -> Iterator[message_pb2.ChatMessage]:
        """Read by time to the end, page by page."""
        request = requests.list_messages(user_id, **options)
        return (message for page in self._pages(self._query.ListMessages, request) for message in page.items)

    def count_messages(self, user_id: str, **options: Unpack[lifecycle.CountOptions]) -> int:
        """Count a user's messages, or those that a filter admits."""
        return self._call(self._query.CountMessages, lifecycle.count_messages(user_id, **options)).count

    def list_conversations(
        self, user_id: str, **options: Unpack[lifecycle.ConversationOptions]
    ) -> query_service_pb2.ListConversationsResponse:
        """Read a page of a user's conversations, the one with the latest message first."""
        return self._call(self._query.ListConversations, lifecycle.list_conversations(user_id, **options))

    def iter_conversations(
        self, user_id: str, **options: Unpack[lifecycle.ConversationOptions]
    ) -> Iterator[query_service_pb2.Conversation]:
        """Read a user's conversations to the end, page by page."""
        request = lifecycle.list_conversations(user_id, **options)
        return (one for page in self._pages(self._query.ListConversations, request) for one in page.conversations)

    def list_users(self, **options: Unpack[lifecycle.UserOptions]) -> query_service_pb2.ListUsersResponse:
        """Read a page of the users who have messages, by their ids. It needs the scope `admin`."""
        return self._call(self._query.ListUsers, lifecycle.list_users(**options))

    def iter_users(self, **options: Unpack[lifecycle.UserOptions]) -> Iterator[query_service_pb2.UserSummary]:
        """Read the users who have messages to the end, page by page."""
        request = lifecycle.list_users(**options)
        return (user for page in self._pages(self._query.ListUsers, request) for user in page.users)

    def export_messages(
        self, user_id: str, **options: Unpack[lifecycle.ExportOptions]
    ) -> Generator[query_service_pb2.ExportMessagesResponse, None, None]:
        """Read all messages of a user, oldest first, in batches that an import takes.

        Each batch has a cursor to resume with; that of the last one is empty. The whole export may take as long as an
        import. Closing the iterator stops it.
        """
        return self._stream(
            self._query.ExportMessages, lifecycle.export_messages(user_id, **options), self._import_timeout
        )

    def lexical_search(
        self, user_id: str, query: str, **options: Unpack[LexicalOptions]
    ) -> query_service_pb2.LexicalSearchResponse:
        """Find words and "phrases": one page, best first."""
        return self._call(self._query.LexicalSearch, requests.lexical_search(user_id, query, **options))

    def iter_lexical(self, user_id: str, query: str, **options: Unpack[LexicalOptions]) -> Iterator[LexicalHit]:
        """Find words and "phrases" to the end, page by page."""
        request = requests.lexical_search(user_id, query, **options)
        return (hit for page in self._pages(self._query.LexicalSearch, request) for hit in lexical_hits(page))

    def semantic_search(
        self, user_id: str, query: str | Sequence[float], **options: Unpack[SemanticOptions]
    ) -> query_service_pb2.SemanticSearchResponse:
        """Find messages near a text in meaning, or near a vector of the caller's own."""
        return self._call(self._query.SemanticSearch, requests.semantic_search(user_id, query, **options))

    def hybrid_search(
        self, user_id: str, question: str, **options: Unpack[HybridOptions]
    ) -> query_service_pb2.HybridSearchResponse:
        """Find the messages that answer a question, best first: by words, meaning, speaker and surroundings."""
        return self._call(self._query.HybridSearch, requests.hybrid_search(user_id, question, **options))

    def neighbors(
        self, user_id: str, message_id: str, **options: Unpack[NeighborOptions]
    ) -> query_service_pb2.GetNeighborsResponse:
        """Read the messages around one of them, oldest first."""
        return self._call(self._query.GetNeighbors, requests.neighbors(user_id, message_id, **options))

    def batch_get(
        self, user_id: str, message_ids: Iterable[str], *, return_fields: Sequence[str] | None = None
    ) -> query_service_pb2.BatchGetMessagesResponse:
        """Look up up to 500 ids, in the given order."""
        return self._call(self._query.BatchGetMessages, requests.batch_get(user_id, message_ids, return_fields))

    def status(self, user_id: str = "") -> ingest_service_pb2.GetIndexStatusResponse:
        """Return how far the log and the indexes are, for one user or, if empty, for all."""
        return self._call(self._ingest.GetIndexStatus, requests.status(user_id))

    def server_info(self) -> server_service_pb2.GetServerInfoResponse:
        """Ask what the server is: its version, its embedding model, what it can do and how much it takes."""
        return self._call(self._server.GetServerInfo, server_service_pb2.GetServerInfoRequest())

    def recall(
        self,
        question: str = "",
        *,
        user_id: str | None = None,
        include_trace: bool = False,
        **options: Unpack[RecallOptions],
    ) -> recall_service_pb2.RecallResponse:
        """Answer a question from what was said. `user_id` is for services; a user's own token names its user."""
        request = requests.recall(question, include_trace=include_trace, **options)
        return self._call(self._recall.Recall, request, requests.bound_to(user_id))

    def stream_recall(
        self, question: str = "", *, user_id: str | None = None, **options: Unpack[RecallOptions]
    ) -> Generator[recall_service_pb2.StreamRecallResponse, None, None]:
        """Recall, and yield each step as it happens, then the result. Closing the iterator cancels the recall."""
        request = requests.stream_recall(question, **options)
        return self._stream(self._recall.StreamRecall, request, self._timeout, requests.bound_to(user_id))

    def _stream(
        self,
        method: grpc.UnaryStreamMultiCallable[_Request, _Reply],
        request: _Request,
        timeout: float,
        metadata: Sequence[tuple[str, str | bytes]] = (),
    ) -> Generator[_Reply, None, None]:
        replies = method(request, timeout=timeout, metadata=(*self._metadata, *metadata))
        try:
            yield from replies
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None
        finally:
            replies.cancel()

    def _pages(self, method: grpc.UnaryUnaryMultiCallable[_Listing, _Page], request: _Listing) -> Iterator[_Page]:
        while True:
            page = self._call(method, request)
            yield page
            if not page.next_cursor:
                return
            request.cursor = page.next_cursor

    def _call(
        self,
        method: grpc.UnaryUnaryMultiCallable[_Request, _Reply],
        request: _Request,
        metadata: Sequence[tuple[str, str | bytes]] = (),
    ) -> _Reply:
        try:
            return method(request, timeout=self._timeout, metadata=(*self._metadata, *metadata))
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None
