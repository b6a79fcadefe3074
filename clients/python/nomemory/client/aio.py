"""Client for asyncio programs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
from google.protobuf.message import Message

from nomemory.client import channel, errors, requests
from nomemory.client.calls import (
    AsynchronousClient,
    BaseClient,
    Item,
    Metadata,
    PagedMethod,
    Reply,
    StreamingMethod,
    UnaryMethod,
)
from nomemory.client.messages import FilterOptions, Writable
from nomemory.v1 import ingest_service_pb2, ingest_service_pb2_grpc


class AsyncClient(BaseClient, AsynchronousClient):
    """An asyncio client with the options of `nomemory.client.Client`.

    Create the client inside the event loop that uses it.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the gRPC channel. Calls that are still running are cancelled."""
        await self._channel.close()

    async def import_messages(
        self, messages: Iterable[Writable], *, replace: bool = False
    ) -> ingest_service_pb2.ImportMessagesResponse:
        """Store any number of messages in batches. Invalid messages are skipped, and reported in the response."""
        send = ingest_service_pb2_grpc.IngestServiceStub(self._channel).ImportMessages
        batches = requests.import_batches(messages, replace=replace)
        try:
            return await send(batches, timeout=self._import_timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise errors.convert_rpc_error(error) from None

    async def count_messages(self, user_id: str, *, at_least: str = "", **filters: Unpack[FilterOptions]) -> int:
        """Count a user's messages that match the filters.

        If `at_least` is set, the count includes the write with this token.
        """
        return (await self._count(user_id, at_least=at_least, **filters)).count

    def _open_channel(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        self._channel = channel.open_asyncio_channel(target, credentials, attempts)

    async def _call_unary(self, call: UnaryMethod[..., Reply], request: Message, metadata: Metadata) -> Reply:
        send: grpc.aio.UnaryUnaryMultiCallable[Message, Reply] = self._channel.unary_unary(
            call.path, type(request).SerializeToString, call.reply_type.FromString
        )
        try:
            return await send(request, timeout=self._timeout, metadata=(*self._metadata, *metadata))
        except grpc.RpcError as error:
            raise errors.convert_rpc_error(error) from None

    async def _call_stream(
        self, call: StreamingMethod[..., Reply], request: Message, metadata: Metadata
    ) -> AsyncGenerator[Reply, None]:
        send: grpc.aio.UnaryStreamMultiCallable[Message, Reply] = self._channel.unary_stream(
            call.path, type(request).SerializeToString, call.reply_type.FromString
        )
        timeout = self._import_timeout if call.has_import_timeout else self._timeout
        replies = send(request, timeout=timeout, metadata=(*self._metadata, *metadata))
        try:
            async for reply in replies:
                yield reply
        except grpc.RpcError as error:
            raise errors.convert_rpc_error(error) from None
        finally:
            replies.cancel()

    async def _iterate_items(
        self,
        paged: PagedMethod[..., Any, Item],
        request: Any,  # noqa: ANN401 - the request of any paged method
        metadata: Metadata,
    ) -> AsyncIterator[Item]:
        while True:
            page = await self._call_unary(paged.page_method, request, metadata)
            for item in paged.items_of(page):
                yield item
            if not page.next_cursor:
                return
            request.cursor = page.next_cursor
