"""The methods of a service as gRPC handlers. They answer admitted calls only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from nomemory.server.rpc.call import Reply, ServedMethod, Service, current_call
from nomemory.server.rpc.parsing import RequestParser

# Any: a handler's request and reply types are those of its own RPC.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


def served_methods(service: Service) -> dict[str, ServedMethod]:
    """Return the methods of a service by their paths: `/nomemory.v1.QueryService/ListMessages`.

    Raises:
        KeyError: the service lacks a method that the contract has.
    """
    served = service.methods()
    return {f"/{service.full_name}/{method.name}": served[method.name] for method in _descriptor(service).methods}


def generic_handler(service: Service) -> grpc.GenericRpcHandler:
    """Return what a gRPC server serves of a service. The contract's descriptor says which methods it has."""
    served = service.methods()
    handlers = {method.name: _handler(method, served[method.name]) for method in _descriptor(service).methods}
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _descriptor(service: Service) -> ServiceDescriptor:
    return descriptor_pool.Default().FindServiceByName(service.full_name)


def _handler(method: MethodDescriptor, served: ServedMethod) -> Handler:
    parsed = RequestParser(method.input_type, writes=served.need.writes)
    if method.client_streaming:
        return grpc.stream_unary_rpc_method_handler(_answering(served), parsed, _encoded)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(_answering(served), parsed, _encoded)
    return grpc.unary_unary_rpc_method_handler(_answering(served), parsed, _encoded)


def _answering(served: ServedMethod) -> Callable[[Any, object], Any]:
    def answer(request: Any, _context: object) -> Any:  # noqa: ANN401 - one request, or a stream of them
        call = current_call()
        if call is None:
            raise RuntimeError("a handler of the contract was reached without NoMemoryInterceptor")
        return served.answer(request, call)

    return answer


def _encoded(reply: Reply) -> bytes:
    return reply if isinstance(reply, bytes) else reply.SerializeToString()
