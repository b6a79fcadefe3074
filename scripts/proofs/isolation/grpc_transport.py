"""Calls over gRPC."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from proofs.isolation.contract import Metadata, Method, Outcome
from proofs.isolation.transport import TIMEOUT_S

_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]


class GrpcTransport:
    """Makes calls on a channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def call(self, method: Method, request: bytes, metadata: Metadata, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Make a call, whatever comes of it."""
        began = time.perf_counter()
        try:
            replies = tuple(self.replies(method, request, metadata, timeout_s))
        except grpc.RpcError as error:
            return _refused(error, time.perf_counter() - began)
        seconds = time.perf_counter() - began
        return Outcome(grpc.StatusCode.OK, b"\n".join(replies), seconds, is_from_server=True, replies=replies)

    def is_healthy(self, timeout_s: float) -> bool:
        """Return whether the server says in time that it serves. It may be about to listen again."""
        request = health_pb2.HealthCheckRequest()
        try:
            health_pb2_grpc.HealthStub(self._channel).Check(request, timeout=timeout_s, wait_for_ready=True)
        except grpc.RpcError:
            return False
        return True

    def replies(self, method: Method, request: bytes, metadata: Metadata, timeout_s: float) -> Iterator[bytes]:
        """Make a call; return its replies as they come.

        Raises:
            grpc.RpcError: it is refused.
        """
        options: dict[str, Any] = {"metadata": metadata, "timeout": timeout_s}
        call: Any  # a stub without serializers takes bytes, which its types do not say
        if method.descriptor.client_streaming:
            call = self._channel.stream_unary(method.path)
            yield call(iter([request]), **options)
        elif method.descriptor.server_streaming:
            call = self._channel.unary_stream(method.path)
            yield from call(request, **options)
        else:
            call = self._channel.unary_unary(method.path)
            yield call(request, **options)


@contextmanager
def open_grpc(target: str, authority: Path | None) -> Iterator[GrpcTransport]:
    """Open a channel of its own; as `Open`."""
    if authority is None:
        channel = grpc.insecure_channel(target, _OPTIONS)
    else:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(authority.read_bytes()), _OPTIONS)
    with channel:
        yield GrpcTransport(channel)


def _refused(error: grpc.RpcError, seconds: float) -> Outcome:
    pairs: list[tuple[str, str | bytes]] = list(error.trailing_metadata() or ())  # type: ignore[arg-type]  # by contract
    told = [str(error.details()).encode(), *(_bytes(part) for pair in pairs for part in pair)]
    answered = any(name == "x-request-id" for name, _ in pairs)
    return Outcome(error.code(), b"\n".join(told), seconds, answered, str(error.details()))


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
