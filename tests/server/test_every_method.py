"""Tests that every method of the contract is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor

from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

if TYPE_CHECKING:
    from running_server import Server

FILES = (query_service_pb2, ingest_service_pb2, recall_service_pb2, server_service_pb2)
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def code_of(channel: grpc.Channel, path: str, method: MethodDescriptor) -> grpc.StatusCode | None:
    """Call a method with an empty request; return the status code if it is rejected."""
    call: Any = None  # without serializers, a stub sends bytes
    try:
        if method.client_streaming:
            call = channel.stream_unary(path)
            call(iter([b""]), timeout=10)
        elif method.server_streaming:
            call = channel.unary_stream(path)
            list(call(b"", timeout=10))
        else:
            call = channel.unary_unary(path)
            call(b"", timeout=10)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return None


@pytest.mark.parametrize("path", METHODS)
def test_every_method_of_the_contract_is_served(vector_server: Server, path: str) -> None:
    with grpc.insecure_channel(vector_server.target) as channel:
        assert code_of(channel, path, METHODS[path]) is not grpc.StatusCode.UNIMPLEMENTED
