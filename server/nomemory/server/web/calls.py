"""Calls over HTTP: each goes the way of a call over gRPC, and its reply or error comes back.

Long replies become JSON one after the other, and others go between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

import grpc

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import Metadata
from nomemory.server.overload.bounds import Bounds
from nomemory.server.rpc.call import Handler, current_call, set_current_call
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import Binding, Routes, methods_of, path_of
from nomemory.server.web.dialects import Dialect, ErrorForm, StreamForm, by_annotation, by_connect
from nomemory.server.web.errors import ErrorStatus, Headers, RefusedError, error_of
from nomemory.server.web.exchange import Exchange

_LONG_BYTES: Final = 1 << 16
"""Up to here a reply becomes JSON within a fraction of a millisecond."""
_NO_STORE: Final[Headers] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_STREAMED: Final[Headers] = (*_NO_STORE, (b"x-accel-buffering", b"no"))


class CallEndedError(grpc.aio.AbortError):
    """A call was ended with a status: its context has it."""


class HttpContext(grpc.aio.ServicerContext[Any, Any]):
    """What handlers and interceptors know of a call, and how they end one.

    Attributes:
        way_in: what metrics call it.

    Args:
        exchange: the request.
        metadata: its headers.
        requests: the requests in it, in the binary format.
        timeout_s: what the client gives the call; None: it says nothing.
    """

    way_in = "http"

    def __init__(
        self,
        exchange: Exchange,
        metadata: Metadata,
        requests: AsyncIterator[bytes],
        timeout_s: float | None = None,
    ) -> None:
        self._exchange = exchange
        self._metadata = metadata
        self._requests = requests
        self._deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        self._trailing: Metadata = ()
        self._code = grpc.StatusCode.OK
        self._details = ""

    async def read(self) -> Any:  # noqa: ANN401 - gRPC's own; EOF is no bytes
        """Return the next request; EOF: there is none."""
        return await anext(self._requests, grpc.aio.EOF)

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: Any = (),  # noqa: ANN401 - gRPC's stubs know two types
    ) -> NoReturn:
        """End the call with a status."""
        self._code, self._details = code, details
        self._trailing = tuple(trailing_metadata) or self._trailing
        raise CallEndedError

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status and its details."""
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    def invocation_metadata(self) -> Any:  # noqa: ANN401 - gRPC's stubs know no tuples
        """Return the headers."""
        return self._metadata

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the properties of the connection's other end."""
        return self._exchange.auth()

    def peer(self) -> str:
        """Return the connection."""
        return self._exchange.connection.peer

    def time_remaining(self) -> float | None:  # type: ignore[override]  # gRPC's own may be None, too
        """Return the seconds that the client leaves to the call; None: it says nothing."""
        return None if self._deadline is None else self._deadline - asyncio.get_running_loop().time()

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:  # type: ignore[override]
        """Set what gRPC sends behind a reply. Over HTTP only what belongs to an error is sent."""
        self._trailing = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:  # noqa: ANN401 - gRPC's stubs know no tuples
        """Return it."""
        return self._trailing

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the code of the status."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Set the sentence of the status."""
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Return the code of the status."""
        return self._code

    def details(self) -> str:
        """Return the sentence of the status."""
        return self._details

    async def send_initial_metadata(self, initial_metadata: Metadata) -> None:  # type: ignore[override]
        """Do nothing: an answer over HTTP has its headers when it begins."""

    async def write(self, message: Any) -> NoReturn:  # noqa: ANN401 - gRPC's own
        """Refuse: methods of the contract return what they reply."""
        raise NotImplementedError

    def set_compression(self, compression: grpc.Compression) -> None:
        """Do nothing: answers are not compressed."""

    def disable_next_message_compression(self) -> None:
        """Do nothing: answers are not compressed."""

    def peer_identities(self) -> Iterable[bytes] | None:
        """Return None: who calls follows from `auth_context`."""

    def peer_identity_key(self) -> str | None:
        """Return None: who calls follows from `auth_context`."""


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
        set_current_call(None)
        path, dialect = self._spoken(exchange)
        metadata = exchange.metadata()
        handler = await self._handler(path, metadata)
        if handler is None:
            raise Fault(Reason.ERROR_REASON_NO_SUCH_PATH, "there is no such method")
        context = HttpContext(exchange, metadata, dialect.requests, exchange.timeout_s())
        # Any: gRPC's stubs know handlers of its threaded server only.
        behaviour: Any = handler.stream_stream if handler.response_streaming else handler.stream_unary
        try:
            replies = behaviour(dialect.requests, context)
            if handler.response_streaming:
                await self._stream(exchange, dialect, replies)
            else:
                await self._answer_once(exchange, dialect, await replies, context)
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
            self._bounds.reply(len(body) - len(raw), context, must_go=True)
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
        beat = asyncio.create_task(stream.beat(self._settings.http.heartbeat_s))
        try:
            async for raw in replies:
                try:
                    await stream.send(dialect.stream.part(await self._written(raw, dialect.reply)))
                except asyncio.CancelledError as cancellation:
                    # The call ends as over gRPC: cancelled where it waits for its client, and logged as such.
                    with suppress(asyncio.CancelledError, StopAsyncIteration):
                        await replies.athrow(cancellation)
                    raise
        finally:
            beat.cancel()
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

    async def beat(self, heartbeat_s: float) -> None:
        """Show for ever that the stream lives, whenever it has been silent for so long."""
        loop = asyncio.get_running_loop()
        while self._form.beat:
            await asyncio.sleep(self._last + heartbeat_s - loop.time())
            if loop.time() >= self._last + heartbeat_s:
                await self.send(self._form.beat)


async def respond_error(exchange: Exchange, error: ErrorStatus, form: ErrorForm) -> None:
    """Answer with an error."""
    status, media_type, body = form(error)
    await exchange.respond(status, ((b"content-type", media_type.encode()), *_NO_STORE, *error.headers()), body)
