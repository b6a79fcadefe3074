"""Every RPC of the contract, found through its descriptors, and requests for it that are made the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass
from identity.calls import Metadata

from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

_FILES = (ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2)
_TIMEOUT_S = 10


@dataclass(frozen=True)
class Method:
    """An RPC."""

    descriptor: MethodDescriptor

    @property
    def name(self) -> str:
        return str(self.descriptor.name)

    @property
    def request_type(self) -> type[ProtoMessage]:
        return GetMessageClass(self.descriptor.input_type)

    @property
    def reply_type(self) -> type[ProtoMessage]:
        return GetMessageClass(self.descriptor.output_type)

    def names_users(self) -> bool:
        return _has_field(self.descriptor.input_type, "user_id", frozenset())

    def send(self, channel: grpc.Channel, request: ProtoMessage, metadata: Metadata) -> list[Any]:
        """Make the call; return all replies.

        Raises:
            grpc.RpcError: it is refused.
        """
        path = f"/{self.descriptor.containing_service.full_name}/{self.name}"
        coding = (path, self.request_type.SerializeToString, self.reply_type.FromString)
        options: dict[str, Any] = {"metadata": metadata, "timeout": _TIMEOUT_S}
        if self.descriptor.client_streaming:
            return [channel.stream_unary(*coding)(iter([request]), **options)]
        if self.descriptor.server_streaming:
            return list(channel.unary_stream(*coding)(request, **options))
        return [channel.unary_unary(*coding)(request, **options)]


METHODS = {
    method.name: Method(method)
    for file in _FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def messages_of_contract() -> Iterator[Descriptor]:
    """Return the type of every message that a request or a reply can be."""
    for method in METHODS.values():
        yield method.descriptor.input_type
        yield method.descriptor.output_type


def fields_below(message_type: Descriptor, seen: frozenset[str] = frozenset()) -> Iterator[FieldDescriptor]:
    """Return every field of a message and of what is in it."""
    for field in message_type.fields:
        yield field
        inner = field.message_type
        if inner is not None and inner.full_name not in seen:
            yield from fields_below(inner, seen | {inner.full_name})


def _has_field(message_type: Descriptor, name: str, seen: frozenset[str]) -> bool:
    return any(field.name == name for field in fields_below(message_type, seen))
