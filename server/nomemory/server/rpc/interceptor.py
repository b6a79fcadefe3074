"""The interceptor that stands before every method of the contract.

It settles who calls and which user a recall is bound to. Only then it reads the request, within bounds, parses it and
confines it to the users whom the caller may read. gRPC itself would read a single request before anybody is asked,
however large, so to gRPC each method takes a stream; on the wire that is the same. A method runs only when all of that
is done. What it replies leaves with the user ids that the caller knows. `grpc_server.py` says where a host's own
interceptors stand.

Methods that anybody may call: health and reflection. They know no caller and no deadline, but the same bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.identity.access import Need, confine, release
from nomemory.server.overload.bounds import Bounds
from nomemory.server.overload.places import Guest
from nomemory.server.rpc.call import Call, Handler, set_current_call
from nomemory.server.rpc.call_lifecycle import CallLifecycle, Context, Method
from nomemory.server.rpc.parsing import RequestParser

Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"
_OneReply = Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]
_Replies = Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]


class NoMemoryInterceptor(grpc.aio.ServerInterceptor):
    """Admits calls to the methods that it knows.

    Args:
        lifecycle: what every call goes through, from its id to its line in the log.
        needs: what each method needs of its caller, by the method's path: `/nomemory.v1.QueryService/ListMessages`.
        open_services: names of services that anybody may call. Any other method does not exist.
        bounds: what calls may hold while they come and leave.
    """

    def __init__(
        self, lifecycle: CallLifecycle, needs: Mapping[str, Need], open_services: frozenset[str], bounds: Bounds
    ) -> None:
        self._lifecycle = lifecycle
        self._bounds = bounds
        self._methods = {path: Method(path, need) for path, need in needs.items()}
        self._open = open_services
        self._guarded: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Return the handler of a call, guarded; None answers UNIMPLEMENTED."""
        path = handler_call_details.method
        method = self._methods.get(path)
        if method is None and not self._is_open(path):
            return None
        handler = await continuation(handler_call_details)
        return None if handler is None else self._guarded_once(path, handler, method)

    def guarded(self, handler: Handler, method: Method) -> Handler:
        """Return a handler that takes and returns bytes and admits a call before it reads for the one it is given."""
        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(self._client_stream(handler, method))
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(self._server_stream(handler, method))
        return grpc.stream_unary_rpc_method_handler(self._unary(handler, method))

    def _guarded_once(self, path: str, handler: Handler, method: Method | None) -> Handler:
        # The server's own handlers are the same for every call. A host's inner interceptor may make new ones each time.
        known = self._guarded.get(path)
        if known is None or known[0] is not handler:
            known = handler, self._bounded(handler) if method is None else self.guarded(handler, method)
            self._guarded[path] = known
        return known[1]

    def _is_open(self, path: str) -> bool:
        return path.removeprefix("/").partition("/")[0] in self._open

    def _unary(self, handler: Handler, method: Method) -> _OneReply:
        answer: Any = handler.unary_unary

        async def handle(stream: AsyncIterator[bytes], context: Context) -> bytes:
            async with self._lifecycle.admitted(method, context) as (call, _):
                raw = await self._request(stream, context)
                set_current_call(call)
                with self._bounds.answering(), self._bounds.holding(len(raw)):
                    request = await _confined(handler, raw, call)
                    reply = _released(handler, await answer(request, context), call, method)
                self._bounds.reply(len(reply), context, must_go=method.need.writes)
                return reply

        return handle

    def _client_stream(self, handler: Handler, method: Method) -> _OneReply:
        answer: Any = handler.stream_unary

        async def handle(stream: AsyncIterator[bytes], context: Context) -> bytes:
            async with self._lifecycle.admitted(method, context) as (call, _):
                set_current_call(call)
                with self._bounds.answering(), self._bounds.uploading(context) as guest:
                    requests = self._each(handler, stream, call, guest)
                    reply = _released(handler, await answer(requests, context), call, method)
                self._bounds.reply(len(reply), context, must_go=method.need.writes)
                return reply

        return handle

    async def _each(
        self, handler: Handler, stream: AsyncIterator[bytes], call: Call, guest: Guest
    ) -> AsyncIterator[Any]:
        while True:
            try:
                raw = await guest.awaits(anext(stream))
            except StopAsyncIteration:
                return
            self._bounds.proven.prove(guest.connection)
            with self._bounds.holding(len(raw)):
                yield await _confined(handler, raw, call)

    def _server_stream(self, handler: Handler, method: Method) -> _Replies:
        answer: Any = handler.unary_stream

        async def handle(stream: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            async with self._lifecycle.admitted(method, context) as (call, timeout):
                request = await _confined(handler, await self._request(stream, context), call)
                set_current_call(call)
                with self._bounds.answering():
                    async for reply in answer(request, context):
                        raw = _released(handler, reply, call, method)
                        timeout.reschedule(None)  # cancelled while gRPC sends, the call would hang without a status
                        with self._bounds.one_reply(len(raw), context):
                            yield raw
                        timeout.reschedule(call.deadline)

        return handle

    async def _request(self, stream: AsyncIterator[bytes], context: Context) -> bytes:
        """Read the one request of a call of somebody who was admitted."""
        raw: bytes = await self._bounds.request(stream, context)
        self._bounds.proven.prove(context.peer())
        return raw

    def _bounded(self, handler: Handler) -> Handler:
        """Return a handler of a method that anybody may call, which reads within bounds for the one it is given."""
        answer: Any = handler.stream_stream or handler.unary_stream or handler.unary_unary

        async def once(stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - the method's own
            async with self._lifecycle.refusing(context):
                return await answer(await self._open_request(stream, context), context)

        async def streaming(stream: AsyncIterator[Any], context: Context) -> None:
            async with self._lifecycle.refusing(context):
                if handler.request_streaming:
                    await _written(answer(self._bounds.requests(stream, context), context), context)
                else:
                    request = await self._open_request(stream, context)
                    await self._bounds.watched(_written(answer(request, context), context), context)

        types = handler.request_deserializer, handler.response_serializer
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(streaming, *types)
        return grpc.stream_unary_rpc_method_handler(once, *types)

    async def _open_request(self, stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - the method's own
        async with asyncio.timeout_at(self._lifecycle.deadline(context)):
            return await self._bounds.request(stream, context)


async def _written(replies: AsyncIterator[Any] | Awaitable[None], context: Context) -> None:
    """Send what a handler of a stream replies; one that is a coroutine does so itself."""
    if isinstance(replies, Awaitable):
        await replies
    else:
        async for reply in replies:
            await context.write(reply)


async def _confined(handler: Handler, raw: bytes, call: Call) -> Any:  # noqa: ANN401 - the request type of the method
    # gRPC would parse before the handler runs, so before anybody knows who calls, and would end the call by itself.
    parser: Any = handler.request_deserializer
    request = await parser.parsed(raw) if isinstance(parser, RequestParser) else parser(raw)
    confine(call.admission, request)
    return request


def _released(handler: Handler, reply: object, call: Call, method: Method) -> bytes:
    raw = handler.response_serializer(reply)  # type: ignore[misc]  # ours always have one
    # Who has no namespace sees what is stored: the reply's type is not even looked up.
    return release(call.admission, _reply_type(method.path), raw) if call.namespace else raw


@cache
def _reply_type(path: str) -> type[ProtoMessage]:
    service, _, name = path.removeprefix("/").partition("/")
    return GetMessageClass(descriptor_pool.Default().FindServiceByName(service).methods_by_name[name].output_type)
