"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc

from nomemory.client import channel, errors, requests
from nomemory.client.base import BaseClient
from nomemory.client.hits import LexicalHit, lexical_hits
from nomemory.client.messages import Writable
from nomemory.v1 import (
    ingest_service_pb2,
    ingest_service_pb2_grpc,
    message_pb2,
    query_service_pb2,
    query_service_pb2_grpc,
    recall_service_pb2,
    recall_service_pb2_grpc,
)

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")
_Listing = TypeVar("_Listing", bound=requests.Listing)
_Page = TypeVar("_Page", bound=requests.Page)


class AsyncClient(BaseClient):
    """What `nomemory.client.Client` is, for asyncio. It takes the same. Make it inside the event loop that uses it."""

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        self._channel = channel.open_async(target, credentials, attempts)
        self._query = query_service_pb2_grpc.QueryServiceStub(self._channel)
        self._ingest = ingest_service_pb2_grpc.IngestServiceStub(self._channel)
        self._recall = recall_service_pb2_grpc.RecallServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel. Calls in flight are cancelled."""
        await self._channel.close()

    async def write(
        self, messages: Iterable[Writable], *, replace: bool = False, request_id: str = ""
    ) -> ingest_service_pb2.WriteMessagesResponse:
        """Store up to 1,000 messages, all or nothing: dictionaries, or what `chat_message` makes."""
        return await self._call(
            self._ingest.WriteMessages, requests.write(messages, replace=replace, request_id=request_id)
        )

    async def import_messages(
        self, messages: Iterable[Writable], *, replace: bool = False
    ) -> ingest_service_pb2.ImportMessagesResponse:
        """Store any number of messages, cut into batches; what is refused is reported and skipped."""
        return await _answer(
            self._ingest.ImportMessages(
                requests.import_batches(messages, replace=replace),
                timeout=self._import_timeout,
                metadata=self._metadata,
            )
        )

    async def delete(self, user_id: str, message_ids: Iterable[str]) -> ingest_service_pb2.DeleteMessagesResponse:
        """Delete up to 1,000 messages of a user."""
        return await self._call(self._ingest.DeleteMessages, requests.delete(user_id, message_ids))

    async def list_messages(
        self, user_id: str, **options: Unpack[requests.ListOptions]
    ) -> query_service_pb2.ListMessagesResponse:
        """Read a page by time, newest first."""
        return await self._call(self._query.ListMessages, requests.list_messages(user_id, **options))

    def iter_messages(
        self, user_id: str, **options: Unpack[requests.ListOptions]
    ) -> AsyncIterator[message_pb2.ChatMessage]:
        """Read by time to the end, page by page."""
        request = requests.list_messages(user_id, **options)
        return (message async for page in self._pages(self._query.ListMessages, request) for message in page.items)

    async def lexical_search(
        self, user_id: str, query: str, **options: Unpack[requests.LexicalOptions]
    ) -> query_service_pb2.LexicalSearchResponse:
        """Find words and "phrases": one page, best first."""
        return await self._call(self._query.LexicalSearch, requests.lexical_search(user_id, query, **options))

    def iter_lexical(
        self, user_id: str, query: str, **options: Unpack[requests.LexicalOptions]
    ) -> AsyncIterator[LexicalHit]:
        """Find words and "phrases" to the end, page by page."""
        request = requests.lexical_search(user_id, query, **options)
        return (hit async for page in self._pages(self._query.LexicalSearch, request) for hit in lexical_hits(page))

    async def semantic_search(
        self, user_id: str, query: str | Sequence[float], **options: Unpack[requests.SemanticOptions]
    ) -> query_service_pb2.SemanticSearchResponse:
        """Find what means the same as a text, or what is near a vector of the caller's own."""
        return await self._call(self._query.SemanticSearch, requests.semantic_search(user_id, query, **options))

    async def hybrid_search(
        self, user_id: str, question: str, **options: Unpack[requests.HybridOptions]
    ) -> query_service_pb2.HybridSearchResponse:
        """Find what answers a question, best first: by words, by meaning, by who spoke and by what stands around."""
        return await self._call(self._query.HybridSearch, requests.hybrid_search(user_id, question, **options))

    async def neighbors(
        self, user_id: str, message_id: str, **options: Unpack[requests.NeighborOptions]
    ) -> query_service_pb2.GetNeighborsResponse:
        """Read the messages around one of them, oldest first."""
        return await self._call(self._query.GetNeighbors, requests.neighbors(user_id, message_id, **options))

    async def batch_get(
        self, user_id: str, message_ids: Iterable[str], *, return_fields: Sequence[str] | None = None
    ) -> query_service_pb2.BatchGetMessagesResponse:
        """Resolve up to 500 ids, in the order asked."""
        return await self._call(self._query.BatchGetMessages, requests.batch_get(user_id, message_ids, return_fields))

    async def status(self, user_id: str = "") -> ingest_service_pb2.GetIndexStatusResponse:
        """Ask how far the log and the indexes are, for one user or (empty) for all."""
        return await self._call(self._ingest.GetIndexStatus, requests.status(user_id))

    async def recall(
        self,
        question: str = "",
        *,
        user_id: str | None = None,
        include_trace: bool = False,
        **options: Unpack[requests.RecallOptions],
    ) -> recall_service_pb2.RecallResponse:
        """Answer a question from what was said. `user_id` is for services; a user's own token names its user."""
        request = requests.recall(question, include_trace=include_trace, **options)
        return await self._call(self._recall.Recall, request, requests.bound_to(user_id))

    def stream_recall(
        self, question: str = "", *, user_id: str | None = None, **options: Unpack[requests.RecallOptions]
    ) -> AsyncGenerator[recall_service_pb2.StreamRecallResponse, None]:
        """Do the same and give each step as it happens, then the result. Closing the iterator stops the work."""
        return self._events(requests.stream_recall(question, **options), requests.bound_to(user_id))

    async def _events(
        self, request: recall_service_pb2.StreamRecallRequest, metadata: Sequence[tuple[str, str | bytes]]
    ) -> AsyncGenerator[recall_service_pb2.StreamRecallResponse, None]:
        events = self._recall.StreamRecall(request, timeout=self._timeout, metadata=(*self._metadata, *metadata))
        try:
            async for event in events:
                yield event
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None
        finally:
            events.cancel()

    async def _pages(
        self, method: grpc.aio.UnaryUnaryMultiCallable[_Listing, _Page], request: _Listing
    ) -> AsyncIterator[_Page]:
        while True:
            page = await self._call(method, request)
            yield page
            if not page.next_cursor:
                return
            request.cursor = page.next_cursor

    async def _call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Reply],
        request: _Request,
        metadata: Sequence[tuple[str, str | bytes]] = (),
    ) -> _Reply:
        return await _answer(method(request, timeout=self._timeout, metadata=(*self._metadata, *metadata)))


async def _answer(call: Awaitable[_Reply]) -> _Reply:
    try:
        return await call
    except grpc.RpcError as error:
        raise errors.from_rpc_error(error) from None
