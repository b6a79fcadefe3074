"""The context of a trace goes over the pipes between processes, and what is logged at the other end has it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from spans.kept import Kept

from nomemory.server.processes.connection import CallFailedError, PipeConnection
from nomemory.server.processes.launch import Launch
from nomemory.server.processes.watch import Vigil
from nomemory.server.processes.worker import Worker
from nomemory.spans.span import Span, trace_fields
from nomemory.spans.tracer import Sampling, Tracer

TESTS = Path(__file__).parent.parent


class Server:
    """Answers as the writer's process does, and notes what its lines of log would say."""

    def __init__(self) -> None:
        self.kept = Kept()
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
        tracer = Tracer(Sampling(0), self.kept)
        answering = await PipeConnection.open(ours, self.answer, self.describe, tracer)
        calling = await PipeConnection.open(theirs)
        try:
            yield calling
        finally:
            calling.close()
            await answering.wait_closed()


def begun(ratio: float) -> tuple[Span, Kept]:
    """Begin a call of this process."""
    kept = Kept()
    return Tracer(Sampling(ratio), kept).begin("call", None), kept


async def test_the_other_end_goes_on_with_the_trace() -> None:
    server = Server()
    async with server.called() as pipe:
        call, _ = begun(1)
        assert await pipe.call("hello") == "hello"
        call.end()
    (answered,) = server.kept.spans
    assert (answered.name, answered.trace_id, answered.parent_id) == ("str", call.trace_id, call.span_id)
    assert server.logged == [{"trace_id": call.trace_id}]


async def test_an_unexpected_error_is_logged_within_the_trace() -> None:
    server = Server()
    async with server.called() as pipe:
        call, _ = begun(1)
        with pytest.raises(CallFailedError):
            await pipe.call("fail")
        call.end()
    assert server.logged == [{"trace_id": call.trace_id}] * 2
    assert server.kept.spans[0].error == "ZeroDivisionError"


async def test_a_trace_that_is_not_recorded_is_in_the_log_all_the_same() -> None:
    server = Server()
    async with server.called() as pipe:
        call, _ = begun(0)
        await pipe.call("hello")
        call.end()
        await pipe.call("of no trace")
    assert server.kept.spans == []
    assert server.logged == [{"trace_id": call.trace_id}, {}]


async def test_a_worker_says_when_it_worked_and_records_nothing_itself() -> None:
    launch = Launch("tracing.echo_worker", environment={"PYTHONPATH": str(TESTS)})
    worker = Worker(launch, 30.0, "some-worker", Vigil())
    try:
        await worker.start()
        call, kept = begun(1)
        assert await worker.call("hello") == "hello"
        call.end()
        assert await worker.call("of no trace") == "of no trace"
        done, whole = kept.spans
        assert (done.name, done.process, done.process_id) == ("some-worker", "some-worker", worker.process_id)
        assert (done.trace_id, done.parent_id) == (call.trace_id, call.span_id)
        assert whole.began_ns <= done.began_ns <= done.ended_ns
        assert whole.name == "call"
    finally:
        await worker.close()
