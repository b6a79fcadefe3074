"""Calls over HTTP: each goes the way of a call over gRPC, and its reply or error comes back.

Long replies become JSON one after the other, and others go between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import Metadata
from nomemory.server.overload.bounds import Bounds
from nomemory.server.rpc.current_call import current_call, forget_current_call
from nomemory.server.rpc.handlers import Handler
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import Binding, Routes, methods_of, path_of
from nomemory.server.web.context import CallEndedError, HttpContext
from nomemory.server.web.dialects import Dialect, StreamForm, by_annotation, by_connect
from nomemory.server.web.errors import ErrorStatus, Headers, RefusedError, error_of
from nomemory.server.web.exchange import Exchange

_LONG_BYTES: Final = 1 << 16
"""Up to here a reply becomes JSON within a fraction of a millisecond."""
_NO_STORE: Final[Headers] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_STREAMED: Final[Headers] = (*_NO_STORE, (b"x-accel-buffering", b"no"))


def nothing_there(verbs: list[str]) -> Fault:
    """Return the refusal of a path that has nothing, or takes only some verbs."""
    if not verbs:
        return Fault(Reason.ERROR_REASON_NO_SUCH_PATH, "there is nothing at this path")
    allowed = ((b"allow", ", ".join(verbs).encode()),)
    return RefusedError(Reason.ERROR_REASON_NO_SUCH_PATH, f"this path takes {' and '.join(verbs)}", 405, allowed)


class Calls:
    """Makes calls.

    Args:
        paths: the methods that may be called by the Connect protocol, by their paths over gRPC.
        bindings: how methods may be called by their annotations.
        handler: finds what answers a call by its path and metadata, as `CallPath.handler`.
        bounds: what clients may hold of the server.
        settings: limits, and how long a stream may be silent.
    """

    def __init__(
        self,
        paths: Iterable[str],
        bindings: Iterable[Binding],
        handler: Callable[[str, Metadata], Awaitable[Handler | None]],
        bounds: Bounds,
        settings: Settings,
    ) -> None:
        self._methods = {path.encode(): method for path, method in zip(paths, methods_of(paths), strict=True)}
        self._routes = Routes(bindings)
        self._handler = handler
        self._bounds = bounds
        self._settings = settings
        self._turn = asyncio.Lock()

    async def answer(self, exchange: Exchange) -> None:
        """Make a call and answer with what comes of it.

        Raises:
            Fault: MALFORMED_REQUEST, the headers cannot be read; NO_SUCH_PATH.
        """
        forget_current_call()
        path, dialect = self._spoken(exchange)
        metadata = exchange.metadata()
        handler = await self._handler(path, metadata)
        if handler is None:
            raise Fault(Reason.ERROR_REASON_NO_SUCH_PATH, "there is no such method")
        context = HttpContext(exchange, metadata, dialect.requests, exchange.timeout_s())
        try:
            if handler.response_streaming:
                await self._stream(exchange, dialect, _replies(handler.stream_stream, dialect, context))
            else:
                await self._answer_once(
                    exchange, dialect, await _replies(handler.stream_unary, dialect, context), context
                )
        except CallEndedError:
            error = error_of(context.code(), context.details(), context.trailing_metadata())
            if exchange.is_answered:
                await exchange.end(dialect.stream.failed(error))
            else:
                await respond_error(exchange, error, dialect.error)

    def _spoken(self, exchange: Exchange) -> tuple[str, Dialect]:
        """Return what a request calls, and how it is spoken."""
        method = self._methods.get(exchange.raw_path)
        if method is not None and exchange.verb == "POST":
            return exchange.raw_path.decode(), by_connect(exchange, method, self._settings)
        match = self._routes.match(exchange.verb, exchange.raw_path)
        if match is None:
            raise nothing_there(["POST"] if method is not None else self._routes.verbs(exchange.raw_path))
        return path_of(match.binding.method), by_annotation(exchange, match, self._settings)

    async def _answer_once(self, exchange: Exchange, dialect: Dialect, raw: bytes, context: HttpContext) -> None:
        body = await self._written(raw, dialect.reply)
        call = current_call()
        if len(body) > len(raw) and call is not None:  # the binary form is counted already
            self._bounds.reply(len(body) - len(raw), call.deadline, context, must_go=True)
        await exchange.respond(200, ((b"content-type", dialect.media_type.encode()), *_NO_STORE), body)

    async def _written(self, raw: bytes, write: Callable[[bytes], bytes]) -> bytes:
        """Write a reply. A long one has its turn in a thread, and the loop looks at whatever else is ready."""
        if len(raw) <= _LONG_BYTES:
            return write(raw)
        async with self._turn:
            return await asyncio.to_thread(write, raw)

    async def _stream(self, exchange: Exchange, dialect: Dialect, replies: AsyncGenerator[bytes, None]) -> None:
        """Send each reply as it comes."""
        stream = _Stream(exchange, dialect.stream)
        async with stream.beating(self._settings.http.heartbeat_s):
            async for raw in replies:
                try:
                    await stream.send(dialect.stream.part(await self._written(raw, dialect.reply)))
                except asyncio.CancelledError as cancellation:
                    # The call ends as over gRPC: cancelled where it waits for its client, and logged as such.
                    with suppress(asyncio.CancelledError, StopAsyncIteration):
                        await replies.athrow(cancellation)
                    raise
        await stream.send(b"")
        await exchange.end(dialect.stream.end)


class _Stream:
    """Sends the parts of a stream."""

    def __init__(self, exchange: Exchange, form: StreamForm) -> None:
        self._exchange = exchange
        self._form = form
        self._last = asyncio.get_running_loop().time()
        self._sending = asyncio.Lock()

    async def send(self, part: bytes) -> None:
        """Send a part; an empty one begins the answer."""
        self._last = asyncio.get_running_loop().time()
        async with self._sending:
            if not self._exchange.is_answered:
                await self._exchange.start(200, ((b"content-type", self._form.media_type.encode()), *_STREAMED))
            if part:
                await self._exchange.send(part)

    @asynccontextmanager
    async def beating(self, heartbeat_s: float) -> AsyncIterator[None]:
        """Show that a stream lives that is silent for so long."""
        beat = asyncio.create_task(self._beat(heartbeat_s)) if self._form.beat else None
        try:
            yield
        finally:
            if beat is not None:
                beat.cancel()

    async def _beat(self, heartbeat_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._last + heartbeat_s - loop.time())
            if loop.time() >= self._last + heartbeat_s:
                await self.send(self._form.beat)


async def respond_error(
    exchange: Exchange,
    error: ErrorStatus,
    form: Callable[[ErrorStatus], tuple[int, str, bytes]],
    headers: Headers = (),
) -> None:
    """Answer with an error."""
    status, media_type, body = form(error)
    found = ((b"content-type", media_type.encode()), *_NO_STORE, *headers, *error.headers())
    await exchange.respond(status, found, body)


def _replies(behaviour: object, dialect: Dialect, context: HttpContext) -> Any:  # noqa: ANN401 - what the kind returns
    """Call what a handler of a kind does; gRPC's stubs know handlers of its threaded server only."""
    return cast("Callable[[AsyncIterator[bytes], HttpContext], Any]", behaviour)(dialect.requests, context)
