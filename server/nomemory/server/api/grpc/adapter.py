"""Adapter from gRPC to the pipeline.

The gRPC library reads the whole request of a unary call before it calls the handler. Therefore all methods are
registered as client-streaming methods, which have the same wire format. The pipeline reads the request after it has
authenticated the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.call import REQUEST_ID, IncomingCall, get_request_id
from nomemory.server.api.grpc.status import build_grpc_status
from nomemory.server.api.limits import Reserve
from nomemory.server.api.parsing import RequestParser
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import Method
from nomemory.server.faults import Fault, Reason

# Any: the types of contexts and handlers depend on the RPC.
ServicerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
RpcHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Requests: TypeAlias = AsyncIterator[bytes]


class MethodAdapter:
    """Passes the gRPC calls of one method to the pipeline."""

    def __init__(self, pipeline: Pipeline, method: Method) -> None:
        self._pipeline = pipeline
        self._method = method
        self._parser = RequestParser(method.descriptor.input_type, is_write=method.served.required.is_write)

    def make_handler(self) -> RpcHandler:
        """Return the gRPC handler, which takes and returns encoded messages."""
        if self._method.descriptor.client_streaming:
            return grpc.stream_unary_rpc_method_handler(self._handle_client_stream)
        if self._method.descriptor.server_streaming:
            return grpc.stream_stream_rpc_method_handler(self._handle_server_stream)
        return grpc.stream_unary_rpc_method_handler(self._handle_unary)

    async def _handle_unary(self, requests: Requests, context: ServicerContext) -> bytes:
        async with self._provide_call(context) as incoming:
            return await self._pipeline.execute_unary(incoming, partial(self._read_request, requests))

    async def _handle_server_stream(self, requests: Requests, context: ServicerContext) -> None:
        async with (
            self._provide_call(context) as incoming,
            aclosing(self._pipeline.execute_server_stream(incoming, partial(self._read_request, requests))) as replies,
        ):
            async for reply in replies:
                await context.write(reply)

    async def _handle_client_stream(self, requests: Requests, context: ServicerContext) -> bytes:
        async with self._provide_call(context) as incoming:
            return await self._pipeline.execute_client_stream(incoming, partial(self._read_next_request, requests))

    @asynccontextmanager
    async def _provide_call(self, context: ServicerContext) -> AsyncIterator[IncomingCall]:
        """Provide the incoming call of a gRPC context.

        The context manager sends the request id as trailing metadata. A fault that is raised in the context ends the
        gRPC call with the status of the fault.
        """
        metadata = tuple(context.invocation_metadata() or ())
        request_id, timeout_s = get_request_id(metadata), context.time_remaining()
        try:
            yield IncomingCall(self._method.path, "grpc", metadata, request_id, context.auth_context, timeout_s)
        except Fault as fault:
            await abort_call(context, fault, request_id)
        # Keep the trailing metadata that an interceptor of the embedding program may have set.
        context.set_trailing_metadata((*(context.trailing_metadata() or ()), (REQUEST_ID, request_id)))

    async def _read_request(self, requests: Requests, reserve: Reserve) -> ProtoMessage:
        request = await self._read_next_request(requests, reserve)
        if request is None:
            raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the call has no request message: send one")
        return request

    async def _read_next_request(self, requests: Requests, reserve: Reserve) -> ProtoMessage | None:
        encoded = await anext(requests, None)
        if encoded is None:
            return None
        reserve(len(encoded))
        return await self._parser.parse(encoded)


async def abort_call(context: ServicerContext, fault: Fault, request_id: str) -> NoReturn:
    """End a gRPC call with the status of a fault, and remove the tracebacks of its exceptions.

    A traceback would keep the request in memory until the next full garbage collection.
    """
    fault.__traceback__ = None
    try:
        await context.abort_with_status(build_grpc_status(fault, request_id))
    except grpc.aio.AbortError as error:
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(partial(_drop_traceback, error))
        raise
    raise fault


def _drop_traceback(error: BaseException, _task: object) -> None:
    error.__traceback__ = error.__context__ = None
