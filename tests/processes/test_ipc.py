"""Calls between the server and a worker process: replies, errors, cancellation and crashes."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from processes.workers import BEGIN, spawned, worker
from server.fleet import is_running, until

from nomemory.server.runtime.processes.ipc_connection import CallFailedError, PipeClosedError, PipeConnection

ECHO = f"""{BEGIN}
while True:
    call = pipe.receive_call()
    if call.request == "fail":
        pipe.reply_error(call.call_id, "ValueError")
    else:
        pipe.notify(call.call_id)
        pipe.reply(call.call_id, call.request)
"""
COUNTING = f"""{BEGIN}
begun = []
while True:
    call = pipe.receive_call()
    begun.append(call.request)
    if call.request == "slow":
        pipe.notify("slow")
        time.sleep(0.5)
    pipe.reply(call.call_id, list(begun))
"""
HANGING = f"{BEGIN}\npipe.receive_call()\ntime.sleep(1000)"
SERVER = """
import socket, subprocess, sys, time
ours, theirs = socket.socketpair()
worker = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(theirs.fileno())], pass_fds=[theirs.fileno()])
theirs.close()
ours.recv(1)
print(worker.pid, flush=True)
time.sleep(1000)
"""
"""Starts a worker, and prints its process id when that takes calls."""


async def test_calls_of_any_size_and_order_get_replies() -> None:
    notified: list[int] = []
    async with worker(ECHO, notified.append) as (_, pipe):
        requests = ["", "x", b"y" * 5_000_000, ["z"] * 100_000, None]
        assert await asyncio.gather(*map(pipe.call, requests)) == requests
    assert notified == sorted(notified)
    assert len(notified) == len(requests)


async def test_an_error_of_one_call_does_not_affect_others() -> None:
    async with worker(ECHO) as (_, pipe):
        failing, answered = asyncio.create_task(pipe.call("fail")), asyncio.create_task(pipe.call("x"))
        with pytest.raises(CallFailedError, match="ValueError"):
            await failing
        assert await answered == "x"


async def test_a_worker_drops_calls_cancelled_before_execution() -> None:
    slow_began = asyncio.Event()
    async with worker(COUNTING, lambda _body: slow_began.set()) as (_, pipe):
        slow = asyncio.create_task(pipe.call("slow"))
        await asyncio.wait_for(slow_began.wait(), 30)
        cancelled = asyncio.create_task(pipe.call("cancelled"))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await pipe.call("last") == ["slow", "last"]
        assert await slow == ["slow"]


async def test_a_dead_worker_fails_its_calls() -> None:
    async with worker(HANGING) as (process, pipe):
        call = asyncio.create_task(pipe.call("x"))
        await asyncio.sleep(0.1)
        process.kill()
        with pytest.raises(PipeClosedError):
            await call
        assert not pipe.is_open
        with pytest.raises(PipeClosedError):
            await pipe.call("y")
        await asyncio.wait_for(pipe.wait_closed(), 5)


async def test_a_failed_worker_start_reports_the_reason() -> None:
    process, ours = spawned(BEGIN.replace("pipe.report_ready()", "pipe.report_startup_error('no room')"))
    pipe = await PipeConnection.open(ours)
    with pytest.raises(CallFailedError, match="no room"):
        await asyncio.wait_for(pipe.wait_until_ready(), 60)
    pipe.close()
    process.wait(30)


@pytest.mark.parametrize("work", ["pipe.receive_calls(wait=True)", "time.sleep(1000)"], ids=["waiting", "hanging"])
def test_a_worker_ends_when_the_server_is_killed(work: str) -> None:
    program = (
        f"from nomemory.server.runtime.processes import ipc_worker\nipc_worker._ORPHAN_GRACE_S = 0.5\n{BEGIN}\n{work}"
    )
    with subprocess.Popen([sys.executable, "-c", SERVER, program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        worker_id = int(server.stdout.readline())
        server.kill()
    assert until(lambda: not is_running(worker_id))
