"""The methods of a service as gRPC handlers. They answer admitted calls only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.identity.access import Need
from nomemory.server.rpc.call import Call, ClientStream, Reply, ServerStream, Service, Unary
from nomemory.server.rpc.current_call import current_call
from nomemory.server.rpc.parsing import RequestParser

# Any: a handler's request and reply types are those of its own RPC.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


def needs_by_path(service: Service) -> Mapping[str, Need]:
    """Return what each method of a service needs of its caller, by its path: `/nomemory.v1.QueryService/ListMessages`.

    Raises:
        KeyError: the service says nothing of a method that the contract has.
    """
    needs = service.needs()
    return {f"/{service.full_name}/{method.name}": needs[method.name] for method in _descriptor(service).methods}


def generic_handler(service: Service) -> grpc.GenericRpcHandler:
    """Return what a gRPC server serves of a service. The contract's descriptor says which methods it has."""
    handlers = {method.name: _handler(service, method) for method in _descriptor(service).methods}
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _descriptor(service: Service) -> ServiceDescriptor:
    return descriptor_pool.Default().FindServiceByName(service.full_name)


def _handler(service: Service, method: MethodDescriptor) -> Handler:
    parsed = RequestParser(method.input_type, writes=service.needs()[method.name].writes)
    if method.client_streaming:
        upload = service.client_stream_methods()[method.name]
        return grpc.stream_unary_rpc_method_handler(_client_stream(upload), parsed, _encoded)
    if method.server_streaming:
        download = service.server_stream_methods()[method.name]
        return grpc.unary_stream_rpc_method_handler(_server_stream(download), parsed, _encoded)
    return grpc.unary_unary_rpc_method_handler(_unary(service.unary_methods()[method.name]), parsed, _encoded)


def _unary(behaviour: Unary) -> Callable[[ProtoMessage, object], Awaitable[Reply]]:
    return lambda request, _context: behaviour(request, _admitted_call())


def _client_stream(behaviour: ClientStream) -> Callable[[AsyncIterator[ProtoMessage], object], Awaitable[Reply]]:
    return lambda requests, _context: behaviour(requests, _admitted_call())


def _server_stream(behaviour: ServerStream) -> Callable[[ProtoMessage, object], AsyncIterator[Reply]]:
    return lambda request, _context: behaviour(request, _admitted_call())


def _admitted_call() -> Call:
    call = current_call()
    if call is None:
        raise RuntimeError("a handler of the contract was reached without NoMemoryInterceptor")
    return call


def _encoded(reply: Reply) -> bytes:
    return reply if isinstance(reply, bytes) else reply.SerializeToString()
