"""The context of a trace goes over the pipes between processes, and what is logged at the other end has it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry.trace import format_trace_id
from spans.kept import Kept

from nomemory.server.processes.connection import CallFailedError, PipeConnection
from nomemory.server.processes.frames import InTrace
from nomemory.spans.span import TracedCall, outgoing_metadata, trace_fields


class Server:
    """Answers as the writer's process does, and notes what its lines of log would say."""

    def __init__(self) -> None:
        self.kept = Kept(0)
        self.logged: list[dict[str, str]] = []

    async def answer(self, request: str) -> str:
        """Answer, or fail."""
        self.logged.append(trace_fields())
        if request == "fail":
            raise ZeroDivisionError
        return request

    def describe(self, error: BaseException) -> str:
        """Describe an error; an unexpected one is logged here."""
        self.logged.append(trace_fields())
        return type(error).__name__

    @asynccontextmanager
    async def called(self) -> AsyncIterator[PipeConnection]:
        """Open both ends; give the one that calls."""
        ours, theirs = socket.socketpair()
        answering = await PipeConnection(self.answer, self.describe, self.kept.tracer).over(ours)
        calling = await PipeConnection().over(theirs)
        try:
            yield calling
        finally:
            calling.close()
            await answering.wait_closed()


def traced(request: str) -> InTrace:
    return InTrace(f"ask {request}", outgoing_metadata(), request)


def fields_of(call: TracedCall) -> dict[str, str]:
    return {"trace_id": format_trace_id(call.span.get_span_context().trace_id)}


async def test_the_other_end_goes_on_with_the_trace() -> None:
    server = Server()
    async with server.called() as pipe:
        call = Kept().tracer.begin("call", ())
        assert await pipe.call(traced("hello")) == "hello"
        call.end(failed=False)
    (answered,) = server.kept.spans
    assert answered.parent is not None
    assert (answered.name, answered.parent.span_id) == ("ask hello", call.span.get_span_context().span_id)
    assert server.logged == [fields_of(call)]


async def test_an_unexpected_error_is_logged_within_the_trace() -> None:
    server = Server()
    async with server.called() as pipe:
        call = Kept().tracer.begin("call", ())
        with pytest.raises(CallFailedError):
            await pipe.call(traced("fail"))
        call.end(failed=False)
    assert server.logged == [fields_of(call)] * 2
    assert dict(server.kept.spans[0].attributes or {}) == {"error.type": "ZeroDivisionError"}


async def test_a_trace_that_is_not_recorded_is_in_the_log_all_the_same() -> None:
    server = Server()
    async with server.called() as pipe:
        call = Kept(0).tracer.begin("call", ())
        await pipe.call(traced("hello"))
        call.end(failed=False)
        await pipe.call("of no trace")
    assert server.kept.spans == ()
    assert server.logged == [fields_of(call), {}]
