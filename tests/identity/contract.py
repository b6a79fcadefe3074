"""Every RPC of the contract with its request and response messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage
from identity.calls import Metadata

from proofs import contract
from proofs.grpc_transport import GrpcTransport

_TIMEOUT_S = 10


class RpcMethod(contract.RpcMethod):
    """An RPC."""

    def names_users(self) -> bool:
        return any(field.name == "user_id" for field in fields_below(self.descriptor.input_type))

    def send(self, channel: grpc.Channel, request: ProtoMessage, metadata: Metadata) -> list[Any]:
        """Make the call; return all replies.

        Raises: grpc.RpcError: The call was rejected.
        """
        replies = GrpcTransport(channel).stream_replies(self, request.SerializeToString(), metadata, _TIMEOUT_S)
        return [self.reply_type.FromString(reply) for reply in replies]


METHODS = {name: RpcMethod(method.descriptor) for name, method in contract.METHODS.items()}


def messages_of_contract() -> Iterator[Descriptor]:
    """Return every type of request and response message."""
    for method in METHODS.values():
        yield method.descriptor.input_type
        yield method.descriptor.output_type


def fields_below(message_type: Descriptor, seen: frozenset[str] = frozenset()) -> Iterator[FieldDescriptor]:
    """Return every field of a message and of its nested messages."""
    for field in message_type.fields:
        yield field
        inner = field.message_type
        if inner is not None and inner.full_name not in seen:
            yield from fields_below(inner, seen | {inner.full_name})
