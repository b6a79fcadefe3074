"""Every RPC of the contract, found through its descriptors, and what comes of a call."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

Metadata = tuple[tuple[str, str | bytes], ...]

_FILES = (query_service_pb2, recall_service_pb2, server_service_pb2, ingest_service_pb2)
"""Reads first: what an attacker deletes cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call.

    Attributes:
        told: everything that the caller got to see: replies, words, details and metadata of a refusal.
        is_from_server: whether the server itself answered, not a client's library or the network.
        replies: in the binary format.
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


METHODS = {
    method.name: Method(method)
    for file in _FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
