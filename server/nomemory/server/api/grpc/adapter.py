"""Calls over gRPC, handed to the pipeline.

gRPC itself would read the one request of a call before anybody knows who calls, however large it is. So it is told that
each method takes a stream of requests, which is the same on the wire, and the pipeline decides when to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.call import REQUEST_ID, IncomingCall, request_id_of
from nomemory.server.api.grpc.status import grpc_status
from nomemory.server.api.limits import Reserve
from nomemory.server.api.parsing import RequestParser
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import Method
from nomemory.server.faults import Fault, Reason

# Any: the types of a context and of a handler are those of its RPC, and nothing here looks at them.
ServicerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
RpcHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


def rpc_handler(pipeline: Pipeline, method: Method) -> RpcHandler:
    """Return the handler of a method. It takes and returns bytes."""
    parser = RequestParser(method.descriptor.input_type, writes=method.served.required.writes)
    if method.descriptor.client_streaming:
        return grpc.stream_unary_rpc_method_handler(partial(_client_stream, pipeline, method.path, parser))
    if method.descriptor.server_streaming:
        return grpc.stream_stream_rpc_method_handler(partial(_server_stream, pipeline, method.path, parser))
    return grpc.stream_unary_rpc_method_handler(partial(_unary, pipeline, method.path, parser))


async def _unary(
    pipeline: Pipeline, path: str, parser: RequestParser, requests: AsyncIterator[bytes], context: ServicerContext
) -> bytes:
    incoming = _incoming(path, context)
    try:
        reply = await pipeline.unary(incoming, partial(_read, parser, requests))
    except Fault as fault:
        await abort(context, fault, incoming.request_id)
    _send_request_id(context, incoming)
    return reply


async def _server_stream(
    pipeline: Pipeline, path: str, parser: RequestParser, requests: AsyncIterator[bytes], context: ServicerContext
) -> None:
    incoming = _incoming(path, context)
    try:
        async with aclosing(pipeline.server_stream(incoming, partial(_read, parser, requests))) as replies:
            async for reply in replies:
                await context.write(reply)
    except Fault as fault:
        await abort(context, fault, incoming.request_id)
    _send_request_id(context, incoming)


async def _client_stream(
    pipeline: Pipeline, path: str, parser: RequestParser, requests: AsyncIterator[bytes], context: ServicerContext
) -> bytes:
    incoming = _incoming(path, context)
    try:
        reply = await pipeline.client_stream(incoming, partial(_read_next, parser, requests))
    except Fault as fault:
        await abort(context, fault, incoming.request_id)
    _send_request_id(context, incoming)
    return reply


def _incoming(path: str, context: ServicerContext) -> IncomingCall:
    metadata = tuple(context.invocation_metadata() or ())
    return IncomingCall(path, "grpc", metadata, request_id_of(metadata), context.auth_context, context.time_remaining())


async def _read(parser: RequestParser, requests: AsyncIterator[bytes], reserve: Reserve) -> ProtoMessage:
    """Read the one request of a call.

    Raises:
        Fault: MALFORMED_REQUEST, there is none.
    """
    request = await _read_next(parser, requests, reserve)
    if request is None:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the call has no request")
    return request


async def _read_next(parser: RequestParser, requests: AsyncIterator[bytes], reserve: Reserve) -> ProtoMessage | None:
    encoded = await anext(requests, None)
    if encoded is None:
        return None
    reserve(len(encoded))
    return await parser.parse(encoded)


def _send_request_id(context: ServicerContext, incoming: IncomingCall) -> None:
    # An interceptor of the embedding program may have set trailing metadata, too.
    context.set_trailing_metadata((*(context.trailing_metadata() or ()), (REQUEST_ID, incoming.request_id)))


async def abort(context: ServicerContext, fault: Fault, request_id: str) -> NoReturn:
    """End a call with the status of a fault.

    The traceback of an exception keeps the frames of the call, and with them its request, until the next full garbage
    collection. So the tracebacks are dropped.
    """
    fault.__traceback__ = None
    try:
        await context.abort_with_status(grpc_status(fault, request_id))
    except grpc.aio.AbortError as error:
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(partial(_drop_traceback, error))
        raise
    raise fault


def _drop_traceback(error: BaseException, _task: object) -> None:
    error.__traceback__ = error.__context__ = None
