"""What a call of one process passes, by whichever way it comes in: a host's interceptors, NoMemory's, the services."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection

from nomemory.server.identity.access import Access
from nomemory.server.identity.caller import Metadata
from nomemory.server.metrics.meters import Meters
from nomemory.server.overload.bounds import Bounds
from nomemory.server.rpc.call import Handler, Reply, ServedMethod, Service, current_call
from nomemory.server.rpc.call_lifecycle import CallLifecycle
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.rpc.interceptor import Continuation, NoMemoryInterceptor
from nomemory.server.rpc.parsing import RequestParser
from nomemory.server.settings import Settings
from nomemory.spans.span import CallTracer

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class CallPath:
    """The way of a call.

    Args:
        services: what is served.
        settings: limits and deadlines.
        access: decides who may call what.
        host: interceptors to run before and after NoMemory's own.
        meters: count them.
        tracer: begins the span of each; None: there are none.

    Attributes:
        bounds: what calls may hold, over all the ways in.
        health: the states of the services.
        names: the services, by their full names.
        needs: what each method of the contract that is served needs, by its path.
    """

    def __init__(
        self,
        services: Sequence[Service],
        settings: Settings,
        access: Access,
        host: HostInterceptors,
        meters: Meters | None = None,
        tracer: CallTracer | None = None,
    ) -> None:
        self.meters = meters or Meters()
        self.bounds = Bounds(settings.connections, streams_are_wrapped=bool(host.outer))
        self.health = health.aio.HealthServicer()
        self.names = [service.full_name for service in services]
        self.needs = {path: served.need for service in services for path, served in _served_methods(service).items()}
        self.handlers = [_generic_handler(service) for service in services]
        lifecycle = CallLifecycle(
            access, settings.timing.deadline_default_s, settings.timing.deadline_import_s, self.meters, tracer
        )
        open_services = frozenset({HEALTH, reflection.SERVICE_NAME})
        own = NoMemoryInterceptor(lifecycle, self.needs, open_services, self.bounds)
        self.interceptors = (*host.outer, own, *host.inner)

    async def open(self) -> None:
        """Say that the services serve."""
        await self.say(serves=True)

    async def say(self, *, serves: bool) -> None:
        """Say whether the services serve for now."""
        states = health_pb2.HealthCheckResponse
        for name in ("", *self.names):
            await self.health.set(name, states.SERVING if serves else states.NOT_SERVING)

    async def close(self) -> None:
        """Say that they do not serve any more."""
        await self.health.enter_graceful_shutdown()

    async def handler(self, path: str, metadata: Metadata) -> Handler | None:
        """Find what answers a call, as a gRPC server does. Only methods of the contract are found.

        What is found takes a stream of requests as bytes and replies with bytes, within the call's own task.
        """
        if path not in self.needs:
            return None
        found: Continuation = self._served
        for interceptor in reversed(self.interceptors):
            found = partial(interceptor.intercept_service, found)
        return await found(_Details(path, tuple(metadata)))

    async def _served(self, details: grpc.HandlerCallDetails) -> Handler | None:
        found = (handler.service(details) for handler in self.handlers)
        return next((handler for handler in found if handler is not None), None)


@dataclass(slots=True)
class _Details:
    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


def _served_methods(service: Service) -> dict[str, ServedMethod]:
    """Return the methods of a service by their paths: `/nomemory.v1.QueryService/ListMessages`.

    Raises:
        KeyError: the service lacks a method that the contract has.
    """
    served = service.methods()
    return {f"/{service.full_name}/{method.name}": served[method.name] for method in _descriptor(service).methods}


def _generic_handler(service: Service) -> grpc.GenericRpcHandler:
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
