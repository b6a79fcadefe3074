"""The watchdog kills unresponsive worker processes and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from processes.workers import BEGIN, worker

from nomemory.server.runtime.active_faults import MEMORY_LIMIT_EXCEEDED, UNRESPONSIVE
from nomemory.server.runtime.processes.ipc_connection import PipeConnection
from nomemory.server.runtime.processes.watchdog import Watchdog, WatchPolicy

IDLE = BEGIN + "time.sleep(100)"
BUSY = BEGIN + "end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\npipe.receive_calls(wait=True)"
BUSY_FOR_LONG = BUSY.replace("1.5", "100")
ANSWERING = BEGIN + "pipe.receive_calls(wait=True)"
GREEDY = BEGIN + "taken = bytearray(300 << 20)\npipe.receive_calls(wait=True)"


@asynccontextmanager
async def watched(program: str, policy: WatchPolicy) -> AsyncIterator[tuple[asyncio.Task[None], PipeConnection]]:
    """Run a worker and watch it."""
    async with worker(program) as (process, pipe):
        watching = asyncio.create_task(Watchdog("part", process.pid, pipe, process.kill, policy).run())
        try:
            yield watching, pipe
        finally:
            watching.cancel()


def policy(idle_timeout_s: float = 1.0, busy_timeout_s: float = 100.0, memory_max_bytes: int = 0) -> WatchPolicy:
    return WatchPolicy(memory_max_bytes, heartbeat_s=0.1, idle_timeout_s=idle_timeout_s, busy_timeout_s=busy_timeout_s)


async def test_an_idle_unresponsive_worker_is_killed() -> None:
    with_faults = policy()
    async with watched(IDLE, with_faults) as (watching, pipe):
        await asyncio.wait_for(watching, 60)
        await asyncio.wait_for(pipe.wait_closed(), 60)
        assert [fault.kind for fault in with_faults.faults.list_active_faults()] == [UNRESPONSIVE]


async def test_a_busy_worker_may_be_silent_for_longer() -> None:
    with_faults = policy(idle_timeout_s=0.5)
    async with watched(BUSY, with_faults) as (watching, pipe):
        await asyncio.wait_for(asyncio.shield(pipe.send_heartbeat()), 60)
        await asyncio.sleep(0.5)
        assert pipe.is_open
        assert not watching.done()
        assert not with_faults.faults.list_active_faults()


async def test_a_busy_worker_that_is_silent_for_too_long_is_killed() -> None:
    async with watched(BUSY_FOR_LONG, policy(busy_timeout_s=0.5)) as (watching, pipe):
        await asyncio.wait_for(watching, 60)
        await asyncio.wait_for(pipe.wait_closed(), 60)


async def test_a_responsive_worker_is_not_killed() -> None:
    async with watched(ANSWERING, policy(idle_timeout_s=0.3)) as (watching, pipe):
        await asyncio.sleep(1.5)
        assert pipe.is_open
        assert not watching.done()


async def test_a_worker_over_its_memory_limit_ends() -> None:
    with_faults = policy(memory_max_bytes=200 << 20)
    async with watched(GREEDY, with_faults) as (watching, pipe):
        await asyncio.wait_for(pipe.wait_closed(), 60)
        await asyncio.wait_for(watching, 60)
        assert {fault.kind for fault in with_faults.faults.list_active_faults()} <= {MEMORY_LIMIT_EXCEEDED}


async def test_the_watchdog_kills_a_worker_over_its_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watchdog, "_limit_memory", lambda _self: None)
    with_faults = policy(memory_max_bytes=200 << 20)
    async with watched(GREEDY, with_faults) as (watching, pipe):
        await asyncio.wait_for(pipe.wait_closed(), 60)
        await asyncio.wait_for(watching, 60)
        assert [fault.kind for fault in with_faults.faults.list_active_faults()] == [MEMORY_LIMIT_EXCEEDED]
