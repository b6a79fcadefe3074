"""Every RPC of the contract, found through its descriptors, called with bytes and answered with bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

Metadata = tuple[tuple[str, str | bytes], ...]

_FILES = (query_service_pb2, recall_service_pb2, server_service_pb2, ingest_service_pb2)
"""Reads first: what an attacker deletes cannot be read any more."""
TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call.

    Attributes:
        told: everything that the caller got to see: replies, words, details and metadata of a refusal.
        is_from_server: whether the server itself answered, not gRPC or the network.
    """

    code: grpc.StatusCode
    told: bytes
    seconds: float
    is_from_server: bool
    details: str = ""
    replies: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Method:
    """An RPC."""

    descriptor: MethodDescriptor

    @property
    def name(self) -> str:
        """Its name within the service."""
        return str(self.descriptor.name)

    @property
    def path(self) -> str:
        """Its name on the wire."""
        return f"/{self.descriptor.containing_service.full_name}/{self.name}"

    @property
    def request_type(self) -> type[Message]:
        """The class of its requests."""
        return GetMessageClass(self.descriptor.input_type)

    @property
    def reply_type(self) -> type[Message]:
        """The class of its replies."""
        return GetMessageClass(self.descriptor.output_type)

    def call(self, channel: grpc.Channel, request: bytes, metadata: Metadata, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Make the call, whatever comes of it."""
        began = time.perf_counter()
        try:
            replies = tuple(self.replies(channel, request, metadata, timeout_s))
        except grpc.RpcError as error:
            return _refused(error, time.perf_counter() - began)
        seconds = time.perf_counter() - began
        return Outcome(grpc.StatusCode.OK, b"\n".join(replies), seconds, is_from_server=True, replies=replies)

    def replies(self, channel: grpc.Channel, request: bytes, metadata: Metadata, timeout_s: float) -> Iterator[bytes]:
        """Make the call; return its replies as they come.

        Raises:
            grpc.RpcError: it is refused.
        """
        options: dict[str, Any] = {"metadata": metadata, "timeout": timeout_s}
        call: Any  # a stub without serializers takes bytes, which its types do not say
        if self.descriptor.client_streaming:
            call = channel.stream_unary(self.path)
            yield call(iter([request]), **options)
        elif self.descriptor.server_streaming:
            call = channel.unary_stream(self.path)
            yield from call(request, **options)
        else:
            call = channel.unary_unary(self.path)
            yield call(request, **options)


METHODS = {
    method.name: Method(method)
    for file in _FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def _refused(error: grpc.RpcError, seconds: float) -> Outcome:
    pairs: list[tuple[str, str | bytes]] = list(error.trailing_metadata() or ())  # type: ignore[arg-type]  # by contract
    told = [str(error.details()).encode(), *(_bytes(part) for pair in pairs for part in pair)]
    answered = any(name == "x-request-id" for name, _ in pairs)
    return Outcome(error.code(), b"\n".join(told), seconds, answered, str(error.details()))


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
