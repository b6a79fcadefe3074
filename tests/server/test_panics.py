"""Tests for engine panics, which derive from BaseException: calls fail with a status, and jobs restart."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import grpc
import pytest
import tantivy
from server.test_interceptor import Misbehaving

from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import AccessControl
from nomemory.server.api.identity.authenticator import LocalAuthenticator
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddresses
from nomemory.server.runtime.processes.supervisor import Supervisor
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.server.search.lexical.tantivy.schema import build_schema
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from rpc_errors import refusal

WAIT_S = 20


def panic() -> NoReturn:
    """Panic like an engine that rejects an empty query."""
    tantivy.Index(build_schema()).searcher().search(tantivy.Query.all_query(), limit=0)
    raise AssertionError("the engine does not panic any more")


class Panicking(Misbehaving):
    """A QueryService whose engine panics."""

    async def crash(self, _request: object, _context: CallContext) -> bytes:
        panic()


def test_panic_is_not_derived_from_exception() -> None:
    with pytest.raises(BaseException, match="greater than 0") as raised:
        panic()
    assert not isinstance(raised.value, Exception)


async def test_panic_ends_the_call_with_a_status() -> None:
    settings = Settings.from_environment(drain_timeout_s=0.0)
    access = AccessControl(LocalAuthenticator())
    async with (
        running_servers([Panicking()], ListenAddresses(ListenAddress("127.0.0.1", 0)), settings, access) as address,
        grpc.aio.insecure_channel(str(address)) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(), timeout=WAIT_S)
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")


async def test_task_panic_is_reported_and_the_job_restarted() -> None:
    supervisor, runs = Supervisor(), [0]

    async def job() -> None:
        runs[0] += 1
        if runs[0] == 1:
            panic()

    await asyncio.wait_for(supervisor.start_task("engine", job), WAIT_S)
    fault = supervisor.fault("engine")
    assert fault is not None
    assert (fault.kind, runs) == ("PanicException", [2])
    assert supervisor.fault("another") is None


async def test_cancelled_job_is_not_restarted() -> None:
    supervisor, begun = Supervisor(), asyncio.Event()

    async def job() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = supervisor.start_task("idle", job)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert supervisor.fault("idle") is None


async def test_stopping_does_not_wait_for_the_retry_of_a_failed_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nomemory.server.runtime.processes.supervisor._FIRST_RESTART_DELAY_S", 3600.0)
    supervisor, failed = Supervisor(), asyncio.Event()

    async def job() -> None:
        failed.set()
        panic()

    task = supervisor.start_task("engine", job)
    await failed.wait()
    supervisor.stop()
    await asyncio.wait_for(task, WAIT_S)
