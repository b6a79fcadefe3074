"""A server of several processes, and a channel to each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc

from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from talk import address_in

_PROBES = 100
Connect = Callable[[str], grpc.Channel]


WITH_LIMITS = [sys.executable, "-P", str(Path(__file__).parents[2] / "scripts" / "with_limits.py")]
"""`nomemory`, with limits by the environment that are fixed for others."""


def command(*arguments: str) -> list[str]:
    """Return the command line of a server."""
    return [*WITH_LIMITS, "serve", *arguments]


def environment(data: Path, workers: int, **more: str) -> dict[str, str]:
    """Return the environment of a small server."""
    return {
        **os.environ, "NOMEMORY_DATA": str(data), "NOMEMORY_LISTEN": "127.0.0.1:0", "NOMEMORY_EMBEDDER": "none",
        "NOMEMORY_EMBEDDING_DIMENSION": "4", "NOMEMORY_WORKERS": str(workers), "NOMEMORY_WORKERS_START_S": "60", **more,
    }  # fmt: skip


def connected(target: str) -> grpc.Channel:
    """Open a connection of its own."""
    return grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])


@dataclass
class Fleet:
    """A running server. `log` is what its processes write to standard error."""

    process: subprocess.Popen[str]
    target: str
    log: Path
    workers: int
    connect: Connect = connected
    open: ExitStack = field(default_factory=ExitStack)

    def channels(self) -> dict[int, grpc.Channel]:
        """Open connections until each worker has one; returns them by the worker's number."""
        found: dict[int, grpc.Channel] = {}
        for _ in range(_PROBES):
            channel = self.open.enter_context(self.connect(self.target))
            found.setdefault(self.worker_of(channel), channel)
            if len(found) == self.workers:
                return found
        raise AssertionError(f"no connection reached all workers: {sorted(found)}")

    def worker_of(self, channel: grpc.Channel) -> int:
        """Find out who answers at the other end of a connection."""
        probe = uuid4().hex
        call = QueryServiceStub(channel).ListMessages.future(
            q.ListMessagesRequest(user_id="probe"), metadata=(("x-request-id", probe),), timeout=30
        )
        call.exception()
        return int(next(line["worker"] for line in self.lines() if line.get("request_id") == probe))

    def lines(self) -> list[dict[str, Any]]:
        """Return what was logged. Crashes are told beside it, and not as JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def readers(self) -> list[int]:
        """Name the processes that serve beside the writer's."""
        listed = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "-f", "composition.reader"],  # noqa: S607 - wherever the system has it
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
        return [int(line) for line in listed.split()]


@contextmanager
def fleet(data: Path, workers: int, connect: Connect = connected, **more: str) -> Iterator[Fleet]:
    """Run a server of several processes until the context is left."""
    log = data.with_suffix(".log")
    with log.open("a") as errors:
        process = subprocess.Popen(
            command(), env=environment(data, workers, **more), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout
    running = Fleet(process, address_in(process.stdout.readline()), log, workers, connect)
    try:
        with running.open:
            yield running
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def until(happened: Callable[[], bool], longest_s: float = 30.0) -> bool:
    """Wait for something; False if it did not happen."""
    give_up = time.monotonic() + longest_s
    while not happened():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def is_running(pid: int) -> bool:
    """Return whether there is such a process, other than one that waits to be taken note of."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    return bool(state) and not state.startswith("Z")
