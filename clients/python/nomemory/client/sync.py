"""The blocking client."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
from google.protobuf.message import Message

from nomemory.client import channel, errors, requests
from nomemory.client.calls import BaseClient, Blocking, Item, Metadata, Paged, Reply, Streamed, Unary
from nomemory.client.messages import FilterOptions, Writable
from nomemory.v1 import ingest_service_pb2, ingest_service_pb2_grpc


class Client(BaseClient, Blocking):
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel. Calls in flight fail."""
        self._channel.close()

    def import_messages(
        self, messages: Iterable[Writable], *, replace: bool = False
    ) -> ingest_service_pb2.ImportMessagesResponse:
        """Store any number of messages in batches. Refused ones are reported and skipped."""
        send = ingest_service_pb2_grpc.IngestServiceStub(self._channel).ImportMessages
        batches = requests.import_batches(messages, replace=replace)
        try:
            return send(batches, timeout=self._import_timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None

    def count_messages(self, user_id: str, *, at_least: str = "", **filters: Unpack[FilterOptions]) -> int:
        """Count a user's messages, or those that a filter admits. `at_least` is a write token."""
        return self._count(user_id, at_least=at_least, **filters).count

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        self._channel = channel.open_sync(target, credentials, attempts)

    def _unary(self, call: Unary[..., Reply], request: Message, metadata: Metadata) -> Reply:
        send: grpc.UnaryUnaryMultiCallable[Message, Reply] = self._channel.unary_unary(
            call.path, type(request).SerializeToString, call.reply.FromString
        )
        try:
            return send(request, timeout=self._timeout, metadata=(*self._metadata, *metadata))
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None

    def _stream(self, call: Streamed[..., Reply], request: Message, metadata: Metadata) -> Generator[Reply, None, None]:
        send: grpc.UnaryStreamMultiCallable[Message, Reply] = self._channel.unary_stream(
            call.path, type(request).SerializeToString, call.reply.FromString
        )
        timeout = self._import_timeout if call.is_long else self._timeout
        replies = send(request, timeout=timeout, metadata=(*self._metadata, *metadata))
        try:
            yield from replies
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None
        finally:
            replies.cancel()

    def _pages(self, listed: Paged[..., Any, Item], request: Any, metadata: Metadata) -> Iterator[Item]:  # noqa: ANN401 - any listing's
        while True:
            page = self._unary(listed.listing, request, metadata)
            yield from listed.items(page)
            if not page.next_cursor:
                return
            request.cursor = page.next_cursor
