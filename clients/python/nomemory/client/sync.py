"""Client with blocking methods."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
from google.protobuf.message import Message

from nomemory.client import channel, errors, requests
from nomemory.client.calls import (
    BaseClient,
    BlockingClient,
    Item,
    Metadata,
    PagedMethod,
    Reply,
    StreamingMethod,
    UnaryMethod,
)
from nomemory.client.messages import FilterOptions, Writable
from nomemory.v1 import ingest_service_pb2, ingest_service_pb2_grpc


class Client(BaseClient, BlockingClient):
    """A thread-safe client that uses one gRPC channel.

    Close the client after use, or use it as a context manager. Methods return the protobuf messages of the API, and
    raise `NoMemoryError` if a call fails. A call that fails with UNAVAILABLE is retried; a stream is retried only
    before its first message. Times are timezone-aware datetimes or RFC 3339 strings.

    Args:
        target: HOST:PORT.
        api_key: an API key, which authenticates a service.
        token: a user token, which authenticates one user; cannot be combined with `api_key`.
        tls: whether to use TLS with the system's root certificates. Setting `tls_ca` or `tls_cert` implies TLS.
        tls_ca: a PEM file with root certificates that replace the system's root certificates.
        tls_cert: a PEM file with the client certificate.
        tls_key: a PEM file with the private key of the client certificate.
        credentials: channel credentials to use instead of the TLS options.
        metadata: gRPC metadata to send with every call.
        timeout: time limit for a call in seconds, including retries.
        import_timeout: time limit for an import or export in seconds.
        attempts: maximum number of attempts per call, 1 to 5.

    Raises:
        OSError: a TLS file cannot be read.
        ValueError: two options conflict, or `attempts` is out of range.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the gRPC channel. Calls that are still running fail."""
        self._channel.close()

    def import_messages(
        self, messages: Iterable[Writable], *, replace: bool = False
    ) -> ingest_service_pb2.ImportMessagesResponse:
        """Store any number of messages in batches. Invalid messages are skipped, and reported in the response."""
        send = ingest_service_pb2_grpc.IngestServiceStub(self._channel).ImportMessages
        batches = requests.import_batches(messages, replace=replace)
        try:
            return send(batches, timeout=self._import_timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise errors.convert_rpc_error(error) from None

    def count_messages(self, user_id: str, *, at_least: str = "", **filters: Unpack[FilterOptions]) -> int:
        """Count a user's messages that match the filters.

        If `at_least` is set, the count includes the write with this token.
        """
        return self._count(user_id, at_least=at_least, **filters).count

    def _open_channel(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        self._channel = channel.open_blocking_channel(target, credentials, attempts)

    def _call_unary(self, call: UnaryMethod[..., Reply], request: Message, metadata: Metadata) -> Reply:
        send: grpc.UnaryUnaryMultiCallable[Message, Reply] = self._channel.unary_unary(
            call.path, type(request).SerializeToString, call.reply_type.FromString
        )
        try:
            return send(request, timeout=self._timeout, metadata=(*self._metadata, *metadata))
        except grpc.RpcError as error:
            raise errors.convert_rpc_error(error) from None

    def _call_stream(
        self, call: StreamingMethod[..., Reply], request: Message, metadata: Metadata
    ) -> Generator[Reply, None, None]:
        send: grpc.UnaryStreamMultiCallable[Message, Reply] = self._channel.unary_stream(
            call.path, type(request).SerializeToString, call.reply_type.FromString
        )
        timeout = self._import_timeout if call.has_import_timeout else self._timeout
        replies = send(request, timeout=timeout, metadata=(*self._metadata, *metadata))
        try:
            yield from replies
        except grpc.RpcError as error:
            raise errors.convert_rpc_error(error) from None
        finally:
            replies.cancel()

    def _iterate_items(self, paged: PagedMethod[..., Any, Item], request: Any, metadata: Metadata) -> Iterator[Item]:  # noqa: ANN401 - the request of any paged method
        while True:
            page = self._call_unary(paged.page_method, request, metadata)
            yield from paged.items_of(page)
            if not page.next_cursor:
                return
            request.cursor = page.next_cursor
