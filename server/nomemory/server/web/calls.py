"""Calls over HTTP: each goes the way of a call over gRPC, and its reply or error comes back.

Long replies become JSON one after the other, and others go between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

from nomemory.server.faults import Fault, Reason
from nomemory.server.rpc.call import Handler, current_call, set_current_call
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.web.context import CallEndedError, HttpContext
from nomemory.server.web.dialect import Dialect, ErrorForm, StreamForm
from nomemory.server.web.errors import ErrorStatus, RefusedError, error_of
from nomemory.server.web.exchange import Exchange, Headers

_LONG_BYTES: Final = 1 << 16
"""Up to here a reply becomes JSON within a fraction of a millisecond."""


class Turns:
    """Gives each long reply its turn, in a thread: meanwhile the loop looks at whatever else is ready."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def written(self, raw: bytes, write: Callable[[bytes], bytes]) -> bytes:
        """Return what writing a reply gives, which comes in the binary format."""
        if len(raw) <= _LONG_BYTES:
            return write(raw)
        async with self._turn:
            return await asyncio.to_thread(write, raw)


_NO_STORE: Final[Headers] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_STREAMED: Final[Headers] = (*_NO_STORE, (b"x-accel-buffering", b"no"))


class Calls:
    """Makes calls.

    Args:
        path: what they pass.
        settings: how long a stream may be silent.
    """

    def __init__(self, path: CallPath, settings: Settings) -> None:
        self._path = path
        self._heartbeat_s = settings.http.heartbeat_s
        self._turns = Turns()

    async def answer(self, exchange: Exchange, path: str, dialect: Dialect) -> None:
        """Make a call and answer with what comes of it.

        Raises:
            Fault: MALFORMED_REQUEST, the headers cannot be read.
            RefusedError: there is no such method.
        """
        set_current_call(None)
        metadata = exchange.metadata()
        handler = await self._path.handler(path, metadata)
        if handler is None:
            raise RefusedError(Fault(Reason.ERROR_REASON_NO_SUCH_PATH, "there is no such method"))
        exchange.holding = self._path.bounds.holding
        requests = dialect.requests(exchange)
        context = HttpContext(metadata, exchange.connection.peer, exchange.auth, exchange.timeout_s(), requests)
        if handler.response_streaming:
            streaming = _Streaming(exchange, context, dialect.stream(), self._turns, self._heartbeat_s)
            await streaming.answer(handler, requests, dialect)
        else:
            await self._answer_once(exchange, context, handler, requests, dialect)

    async def _answer_once(
        self,
        exchange: Exchange,
        context: HttpContext,
        handler: Handler,
        requests: AsyncIterator[bytes],
        dialect: Dialect,
    ) -> None:
        try:
            raw = await _behaviour(handler.stream_unary)(requests, context)
        except CallEndedError:
            await respond_error(exchange, error_of(context.status), dialect)
            return
        body = await self._turns.written(raw, dialect.reply)
        self._note_growth(len(body) - len(raw), context)
        media_type = (b"content-type", dialect.media_type.encode())
        await exchange.respond(200, (media_type, *_NO_STORE), body)

    def _note_growth(self, more: int, context: HttpContext) -> None:
        """Count what a reply takes more than its binary form, which is counted already."""
        call = current_call()
        if more > 0 and call is not None:
            self._path.bounds.reply(more, context, must_go=True)


async def respond_error(exchange: Exchange, error: ErrorStatus, form: ErrorForm, headers: Headers = ()) -> None:
    """Answer with an error."""
    if error.retry_after_s is not None:
        headers = (*headers, (b"retry-after", b"%d" % error.retry_after_s))
    if error.code == "UNAUTHENTICATED":
        headers = (*headers, (b"www-authenticate", b"Bearer"))
    status, media_type, body = form.error(error)
    await exchange.respond(status, ((b"content-type", media_type.encode()), *_NO_STORE, *headers), body)


def _behaviour(of_kind: object) -> Callable[[AsyncIterator[bytes], HttpContext], Any]:
    """Return what a handler of a kind does; gRPC's stubs know handlers of its threaded server only."""
    return cast("Callable[[AsyncIterator[bytes], HttpContext], Any]", of_kind)


class _Streaming:
    """Answers with a stream.

    Args:
        exchange: what is answered.
        context: the call.
        form: how the stream is written.
        turns: when a long reply is.
        heartbeat_s: how long it may be silent.
    """

    def __init__(
        self, exchange: Exchange, context: HttpContext, form: StreamForm, turns: Turns, heartbeat_s: float
    ) -> None:
        self._exchange = exchange
        self._context = context
        self._form = form
        self._turns = turns
        self._heartbeat_s = heartbeat_s
        self._last = asyncio.get_running_loop().time()
        self._sending = asyncio.Lock()

    async def answer(self, handler: Handler, requests: AsyncIterator[bytes], dialect: Dialect) -> None:
        """Send each reply as it comes."""
        replies = cast("AsyncGenerator[bytes, None]", _behaviour(handler.stream_stream)(requests, self._context))
        try:
            async with self._beating():
                async for raw in replies:
                    await self._send_reply(replies, raw)
        except CallEndedError:
            await self._send_error(error_of(self._context.status), dialect)
            return
        await self._send(b"")
        await self._exchange.end(self._form.end())

    async def _send_reply(self, replies: AsyncGenerator[bytes, None], raw: bytes) -> None:
        try:
            await self._send(await self._turns.written(raw, self._form.reply))
        except asyncio.CancelledError as cancellation:
            # The call ends as over gRPC: cancelled where it waits for its client, and logged as such.
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await replies.athrow(cancellation)
            raise

    async def _send(self, part: bytes) -> None:
        self._last = asyncio.get_running_loop().time()
        async with self._sending:
            if not self._exchange.is_answered:
                media_type = (b"content-type", self._form.media_type.encode())
                await self._exchange.start(200, (media_type, *_STREAMED))
            if part:
                await self._exchange.send(part)

    async def _send_error(self, error: ErrorStatus, dialect: Dialect) -> None:
        if not self._exchange.is_answered:
            await respond_error(self._exchange, error, dialect)
            return
        await self._send(b"")
        await self._exchange.end(self._form.error(error))

    @asynccontextmanager
    async def _beating(self) -> AsyncIterator[None]:
        """Show now and then that a silent stream lives."""
        beat = asyncio.create_task(self._beat()) if self._form.beat() else None
        try:
            yield
        finally:
            if beat is not None:
                beat.cancel()

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._last + self._heartbeat_s - loop.time())
            if loop.time() >= self._last + self._heartbeat_s:
                await self._send(self._form.beat())
