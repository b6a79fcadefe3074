"""The interceptor that stands before every method of the contract.

It settles who calls and which user a recall is bound to, then parses the request and confines it to the users whom the
caller may read. A method runs only when all of that is done. What it replies leaves with the user ids that the caller
knows. `grpc_server.py` says where a host's own interceptors stand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.identity.access import Need, confine, release
from nomemory.server.rpc.call import Call
from nomemory.server.rpc.call_lifecycle import CallLifecycle, Context, Method
from nomemory.server.rpc.current_call import set_current_call
from nomemory.server.rpc.handlers import Handler

Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class NoMemoryInterceptor(grpc.aio.ServerInterceptor):
    """Admits calls to the methods that it knows.

    Args:
        lifecycle: what every call goes through, from its id to its line in the log.
        needs: what each method needs of its caller, by the method's path: `/nomemory.v1.QueryService/ListMessages`.
        open_services: names of services that anybody may call. Any other method does not exist.
    """

    def __init__(self, lifecycle: CallLifecycle, needs: Mapping[str, Need], open_services: frozenset[str]) -> None:
        self._lifecycle = lifecycle
        self._methods = {path: Method(path, need) for path, need in needs.items()}
        self._open = open_services
        self._guarded: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Return the handler of a call, guarded; None answers UNIMPLEMENTED."""
        path = handler_call_details.method
        method = self._methods.get(path)
        if method is None:
            return await continuation(handler_call_details) if self._is_open(path) else None
        handler = await continuation(handler_call_details)
        return None if handler is None else self._guarded_once(path, handler, method)

    def guarded(self, handler: Handler, method: Method) -> Handler:
        """Return a handler that takes and returns bytes and admits a call before it runs the one it is given."""
        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(self._client_stream(handler, method))
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._server_stream(handler, method))
        return grpc.unary_unary_rpc_method_handler(self._unary(handler, method))

    def _guarded_once(self, path: str, handler: Handler, method: Method) -> Handler:
        # The server's own handlers are the same for every call. A host's inner interceptor may make new ones each time.
        known = self._guarded.get(path)
        if known is None or known[0] is not handler:
            known = self._guarded[path] = handler, self.guarded(handler, method)
        return known[1]

    def _is_open(self, path: str) -> bool:
        return path.removeprefix("/").partition("/")[0] in self._open

    def _unary(self, handler: Handler, method: Method) -> Callable[[bytes, Context], Awaitable[bytes]]:
        answer: Any = handler.unary_unary

        async def handle(raw: bytes, context: Context) -> bytes:
            async with self._lifecycle.admitted(method, context) as call:
                request = _confined(handler, raw, call)
                set_current_call(call)
                return _released(handler, await answer(request, context), call, method)

        return handle

    def _client_stream(
        self, handler: Handler, method: Method
    ) -> Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]:
        answer: Any = handler.stream_unary

        async def handle(stream: AsyncIterator[bytes], context: Context) -> bytes:
            async with self._lifecycle.admitted(method, context) as call:
                set_current_call(call)
                requests = (_confined(handler, raw, call) async for raw in stream)
                return _released(handler, await answer(requests, context), call, method)

        return handle

    def _server_stream(self, handler: Handler, method: Method) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
        answer: Any = handler.unary_stream

        async def handle(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            async with self._lifecycle.admitted(method, context) as call:
                request = _confined(handler, raw, call)
                set_current_call(call)
                async for reply in answer(request, context):
                    yield _released(handler, reply, call, method)

        return handle


def _confined(handler: Handler, raw: bytes, call: Call) -> Any:  # noqa: ANN401 - the request type of the method
    # gRPC would parse before the handler runs, so before anybody knows who calls, and would end the call by itself.
    request = handler.request_deserializer(raw)  # type: ignore[misc]  # ours always have one
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
