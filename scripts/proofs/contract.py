"""The RPC methods of the API, read from the descriptors, and the outcome of a call."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

Metadata = tuple[tuple[str, str | bytes], ...]

_FILES = (query_service_pb2, recall_service_pb2, server_service_pb2, ingest_service_pb2)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of an RPC, as observed by the caller.

    Attributes:
        visible: all bytes that the caller receives: replies, or the details and metadata of an error.
        seconds: time from the request to the end of the reply.
        is_from_server: whether the server produced the status, as opposed to the client library.
    """

    code: grpc.StatusCode
    visible: bytes
    seconds: float
    is_from_server: bool
    details: str = ""
    replies: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """An RPC method."""

    descriptor: MethodDescriptor

    @property
    def name(self) -> str:
        """Name of the method within its service."""
        return str(self.descriptor.name)

    @property
    def path(self) -> str:
        """Full name: `/package.Service/Method`."""
        return f"/{self.descriptor.containing_service.full_name}/{self.name}"

    @property
    def request_type(self) -> type[Message]:
        """Class of the request messages."""
        return GetMessageClass(self.descriptor.input_type)

    @property
    def reply_type(self) -> type[Message]:
        """Class of the reply messages."""
        return GetMessageClass(self.descriptor.output_type)


METHODS = {
    method.name: RpcMethod(method)
    for file in _FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
