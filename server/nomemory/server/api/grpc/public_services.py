"""The gRPC health and reflection services.

Health and reflection require no authentication. The server therefore limits how many health and reflection requests it
reads at the same time, and how long it waits for a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha import reflection_pb2 as pb

from nomemory.server.api.call import get_request_id
from nomemory.server.api.errors import to_fault
from nomemory.server.api.grpc.adapter import RpcHandler, ServicerContext, abort_call
from nomemory.server.api.health import HEALTH_SERVICE
from nomemory.server.api.limits import RequestLimits
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("api")
_READ_TIMEOUT_S: Final = 10.0
"""Timeout for reading a request, and for a whole reflection stream."""
_REFLECTION_SERVICES: Final = (reflection.SERVICE_NAME, "grpc.reflection.v1.ServerReflection")
"""The reflection services. Both versions use the same messages."""


def add_public_services(
    server: grpc.aio.Server, states: health.aio.HealthServicer, service_names: list[str] | None
) -> None:
    """Register the health service, and the reflection service unless `service_names` is None."""
    health_pb2_grpc.add_HealthServicer_to_server(states, server)
    if service_names is None:
        return
    servicer = reflection.aio.ReflectionServicer([*service_names, HEALTH_SERVICE, *_REFLECTION_SERVICES])
    handler: RpcHandler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        pb.ServerReflectionRequest.FromString,
        pb.ServerReflectionResponse.SerializeToString,
    )
    handlers = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(name, handlers) for name in _REFLECTION_SERVICES]
    )


def is_public_path(path: str) -> bool:
    """Return whether a path belongs to the health service or the reflection service."""
    return path.removeprefix("/").partition("/")[0] in {HEALTH_SERVICE, *_REFLECTION_SERVICES}


def limit_public_handler(handler: RpcHandler, limits: RequestLimits) -> RpcHandler:
    """Return a handler of a health or reflection method that enforces the request limits."""
    types = handler.request_deserializer, handler.response_serializer
    if handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(partial(_handle_reflection, handler, limits), *types)
    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(partial(_handle_watch, handler, limits), *types)
    return grpc.stream_unary_rpc_method_handler(partial(_handle_check, handler, limits), *types)


# Any: the types of requests and responses depend on the method.
async def _handle_check(
    handler: RpcHandler, limits: RequestLimits, requests: AsyncIterator[Any], context: ServicerContext
) -> Any:  # noqa: ANN401
    answer: Any = handler.unary_unary
    async with _abort_on_fault(context):
        request = await _read_request(limits, requests)
    return await answer(request, context)


async def _handle_watch(
    handler: RpcHandler, limits: RequestLimits, requests: AsyncIterator[Any], context: ServicerContext
) -> None:
    answer: Any = handler.unary_stream
    async with _abort_on_fault(context):
        request = await _read_request(limits, requests)
        with limits.watches.slot():
            await answer(request, context)  # the handler writes the responses


async def _handle_reflection(
    handler: RpcHandler, limits: RequestLimits, requests: AsyncIterator[Any], context: ServicerContext
) -> None:
    answer: Any = handler.stream_stream
    async with _abort_on_fault(context):
        with limits.public_reads.slot():
            async with asyncio.timeout(_READ_TIMEOUT_S):
                async for reply in answer(requests, context):
                    await context.write(reply)


async def _read_request(limits: RequestLimits, requests: AsyncIterator[Any]) -> Any:  # noqa: ANN401
    with limits.public_reads.slot():
        async with asyncio.timeout(_READ_TIMEOUT_S):
            request = await anext(requests, None)
    if request is None:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the call has no request message: send one")
    return request


@asynccontextmanager
async def _abort_on_fault(context: ServicerContext) -> AsyncIterator[None]:
    try:
        yield
    except (Fault, TimeoutError) as error:
        await abort_call(context, to_fault(error, _log), get_request_id(tuple(context.invocation_metadata() or ())))
