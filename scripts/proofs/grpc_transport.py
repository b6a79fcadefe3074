"""gRPC calls with serialized requests and replies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import grpc

from proofs.contract import CallOutcome, Metadata, RpcMethod

TIMEOUT_S = 20.0
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]


class GrpcTransport:
    """Thread-safe caller of RPC methods on a gRPC channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def call(self, method: RpcMethod, request: bytes, metadata: Metadata, timeout_s: float = TIMEOUT_S) -> CallOutcome:
        """Make a call and return its outcome; the request may be invalid protobuf."""
        began = time.perf_counter()
        try:
            replies = tuple(self.stream_replies(method, request, metadata, timeout_s))
        except grpc.RpcError as error:
            return _build_error_outcome(error, time.perf_counter() - began)
        seconds = time.perf_counter() - began
        return CallOutcome(grpc.StatusCode.OK, b"\n".join(replies), seconds, is_from_server=True, replies=replies)

    def stream_replies(
        self, method: RpcMethod, request: bytes, metadata: Metadata, timeout_s: float
    ) -> Iterator[bytes]:
        """Make a call; yield the replies as they arrive.

        Raises:
            grpc.RpcError: the call failed.
        """
        options: dict[str, Any] = {"metadata": metadata, "timeout": timeout_s}
        call: Any  # stubs without serializers accept bytes, which the types do not express
        if method.descriptor.client_streaming:
            call = self._channel.stream_unary(method.path)
            yield call(iter([request]), **options)
        elif method.descriptor.server_streaming:
            call = self._channel.unary_stream(method.path)
            yield from call(request, **options)
        else:
            call = self._channel.unary_unary(method.path)
            yield call(request, **options)


def _build_error_outcome(error: grpc.RpcError, seconds: float) -> CallOutcome:
    pairs: list[tuple[str, str | bytes]] = list(error.trailing_metadata() or ())  # type: ignore[arg-type]  # by contract
    visible = [str(error.details()).encode(), *(_to_bytes(part) for pair in pairs for part in pair)]
    is_from_server = any(name == "x-request-id" for name, _ in pairs)
    return CallOutcome(error.code(), b"\n".join(visible), seconds, is_from_server, str(error.details()))


def _to_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
