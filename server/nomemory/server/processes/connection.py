"""One end of a pipe on the event loop: any number of calls at a time, in both directions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import Any, Self, cast

from nomemory.server.processes.frames import (
    READY,
    FrameBuffer,
    Heartbeat,
    InTrace,
    Reply,
    Withdrawal,
    pack,
)
from nomemory.spans.span import ERROR_TYPE, CallTracer, TracedCall

Answer = Callable[[Any], Coroutine[Any, Any, object]]
"""Answers a request of the other end."""

DescribeError = Callable[[BaseException], object]
"""Return what the other end may know of an error that a request ended with."""


class PipeClosedError(Exception):
    """The other end is gone. It may or may not have done what it was asked."""


class CallFailedError(Exception):
    """The other end answered that the call failed.

    Attributes:
        error: what it says about that.
    """

    def __init__(self, error: Any) -> None:  # noqa: ANN401 - as the other end describes it
        super().__init__(error)
        self.error = error


async def answer_nothing(_request: object) -> None:
    """Take a request and do nothing."""
    return


class PipeConnection(asyncio.Protocol):
    """Calls the process at the other end, and answers its calls, once it has a socket: see `over`.

    It takes frames off the transport itself: a stream would wake the loop twice for each.

    Args:
        answer: answers the other end's requests, each in a task of its own; cancelled when the request is withdrawn
            or the other end is gone.
        describe_error: what is replied when `answer` raises.
        tracer: begins the spans of the other end's requests that belong to a trace; None: they have none.

    Attributes:
        heard_at: when something last arrived, in the event loop's time.
        is_open: whether calls can be made.
    """

    def __init__(
        self,
        answer: Answer = answer_nothing,
        describe_error: DescribeError = repr,
        tracer: CallTracer | None = None,
    ) -> None:
        self._answer = answer
        self._describe_error = describe_error
        self._tracer = tracer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._arrived = FrameBuffer()
        self._ids = count(READY + 1)
        # It may arrive before anybody asks for it.
        self._ready: asyncio.Future[Reply | None] = self._loop.create_future()
        self._waiting = {READY: self._ready}
        self._answering: dict[int, asyncio.Task[object]] = {}
        self.is_open = True
        self._lost = asyncio.Event()
        self.heard_at = self._loop.time()

    async def over(self, end: socket.socket) -> Self:
        """Take over one end of a pair of sockets."""
        await self._loop.create_unix_connection(lambda: self, sock=end)
        return self

    @property
    def is_ready(self) -> bool:
        """Return whether the other end has said that it is ready, or why it cannot be."""
        return self._ready.done()

    async def wait_ready(self) -> None:
        """Wait until the other end says that it is ready.

        Raises:
            CallFailedError: it says why it cannot be.
            PipeClosedError: it is gone.
        """
        _value(await self._ready)

    def ready(self) -> None:
        """Report to the other end that this one is ready."""
        self._write(READY, Reply())

    async def call(self, request: object) -> Any:  # noqa: ANN401 - each request says what its answer is
        """Send a request and return its answer. A call that is cancelled is withdrawn.

        Raises:
            CallFailedError: the other end could not do it.
            PipeClosedError: the other end is gone.
        """
        if not self.is_open:
            raise PipeClosedError
        call_id = next(self._ids)
        arriving = self._waiting[call_id] = self._loop.create_future()
        self._write(call_id, request)
        try:
            return _value(await arriving)
        except asyncio.CancelledError:
            self._write(call_id, Withdrawal())
            raise
        finally:
            del self._waiting[call_id]

    def beat(self) -> asyncio.Future[Reply | None]:
        """Ask for a heartbeat; the future is done when it has come, or the other end is gone."""
        call_id = next(self._ids)
        arriving = self._waiting[call_id] = self._loop.create_future()
        arriving.add_done_callback(lambda _arrived: self._waiting.pop(call_id))
        self._write(call_id, Heartbeat())
        return arriving

    def notify(self, request: object) -> None:
        """Send a request whose answer does not matter."""
        self._write(next(self._ids), request)

    def refuse_calls(self) -> None:
        """Make no further calls; those under way are answered if the other end still does."""
        self.is_open = False

    def close(self) -> None:
        """Close this end."""
        self.is_open = False
        self._transport.close()

    async def wait_closed(self) -> None:
        """Wait until the pipe is closed, by whichever end."""
        await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport to write to."""
        self._transport = cast("asyncio.Transport", transport)  # it writes, too; event loops have classes of their own

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        self.heard_at = self._loop.time()
        self._arrived.feed(data)
        for call_id, body in self._arrived.take():
            self._take(call_id, body)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """Fail the calls to the other end, and drop its own."""
        self.is_open = False
        for call_id in list(self._waiting):
            self._settle(call_id, None)
        for task in list(self._answering.values()):
            task.cancel()
        self._lost.set()

    def _take(self, call_id: int, body: object) -> None:
        if isinstance(body, Reply):
            self._settle(call_id, body)
        elif isinstance(body, Withdrawal):
            if call_id in self._answering:
                self._answering[call_id].cancel()
        elif isinstance(body, Heartbeat):
            self._write(call_id, Reply())
        else:
            self._begin(call_id, body)

    def _begin(self, call_id: int, body: object) -> None:
        context, traced = copy_context(), None
        if isinstance(body, InTrace):
            traced = context.run(self._continued, body)
            body = body.request
        task = self._answering[call_id] = self._loop.create_task(self._answer(body), context=context)
        task.add_done_callback(partial(self._reply, call_id, traced), context=context)

    def _continued(self, body: InTrace) -> TracedCall | None:
        return None if self._tracer is None else self._tracer.begin(body.name, body.headers)

    def _reply(self, call_id: int, traced: TracedCall | None, done: asyncio.Task[object]) -> None:
        del self._answering[call_id]
        if not done.cancelled():
            error = done.exception()
            reply = Reply(done.result()) if error is None else Reply(error=self._describe_error(error))
            self._write(call_id, reply)
        if traced is not None:
            _end(traced, done)

    def _settle(self, call_id: int, reply: Reply | None) -> None:
        arriving = self._waiting.get(call_id)
        if arriving is not None and not arriving.done():
            arriving.set_result(reply)

    def _write(self, call_id: int, body: object) -> None:
        if not self._transport.is_closing():
            self._transport.write(pack(call_id, body))


def _end(traced: TracedCall, done: asyncio.Task[object]) -> None:
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    if error is not None:
        traced.span.set_attribute(ERROR_TYPE, type(error).__name__)
    traced.end(failed=error is not None)


def _value(reply: Reply | None) -> Any:  # noqa: ANN401 - see `call`
    if reply is None:
        raise PipeClosedError
    if reply.error is not None:
        raise CallFailedError(reply.error)
    return reply.value
