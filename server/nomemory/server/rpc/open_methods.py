"""Methods that anybody may call: health and reflection. They know no caller and no deadline, but the same bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from nomemory.server.rpc.bounds import Bounds, Context
from nomemory.server.rpc.call_lifecycle import CallLifecycle
from nomemory.server.rpc.handlers import Handler


class OpenMethods:
    """Bounds what such methods read and reply.

    Args:
        bounds: what calls may hold.
        lifecycle: ends those that are refused.
    """

    def __init__(self, bounds: Bounds, lifecycle: CallLifecycle) -> None:
        self._bounds = bounds
        self._lifecycle = lifecycle

    def bounded(self, handler: Handler) -> Handler:
        """Return a handler that reads within bounds for the one it is given."""
        types = handler.request_deserializer, handler.response_serializer
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(self._both_streams(handler), *types)
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(self._server_stream(handler), *types)
        return grpc.stream_unary_rpc_method_handler(self._unary(handler), *types)

    def _unary(self, handler: Handler) -> Callable[[AsyncIterator[Any], Context], Awaitable[Any]]:
        answer: Any = handler.unary_unary

        async def handle(stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - the method's own
            async with self._lifecycle.refusing(context):
                return await answer(await self._request(stream, context), context)

        return handle

    def _server_stream(self, handler: Handler) -> Callable[[AsyncIterator[Any], Context], Awaitable[None]]:
        answer: Any = handler.unary_stream

        async def handle(stream: AsyncIterator[Any], context: Context) -> None:
            async with self._lifecycle.refusing(context):
                request = await self._request(stream, context)
                with self._bounds.watching(context):
                    await _written(answer(request, context), context)

        return handle

    def _both_streams(self, handler: Handler) -> Callable[[AsyncIterator[Any], Context], Awaitable[None]]:
        answer: Any = handler.stream_stream

        async def handle(stream: AsyncIterator[Any], context: Context) -> None:
            async with self._lifecycle.refusing(context):
                with self._bounds.conversation(stream, context) as requests:
                    await _written(answer(requests, context), context)

        return handle

    async def _request(self, stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - the method's own
        async with asyncio.timeout_at(self._lifecycle.deadline(context)):
            return await self._bounds.request(stream, context)


async def _written(replies: AsyncIterator[Any] | Awaitable[None], context: Context) -> None:
    """Send what a handler of a stream replies; one that is a coroutine does so itself."""
    if isinstance(replies, Awaitable):
        await replies
    else:
        async for reply in replies:
            await context.write(reply)
