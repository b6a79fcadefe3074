"""A server in a separate process that tests kill, measure, or whose log they read."""

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

import grpc

from running_server import address_in

NOMEMORY = str(Path(sys.executable).with_name("nomemory"))
"""The command line program of this environment."""


def command(*arguments: str) -> list[str]:
    """Return the command line of a server."""
    return [NOMEMORY, "serve", *arguments]


def environment(data: Path, **more: str) -> dict[str, str]:
    """Return the environment of a small server."""
    return {
        **os.environ, "NOMEMORY_DATA": str(data), "NOMEMORY_LISTEN": "127.0.0.1:0", "NOMEMORY_EMBEDDER": "none",
        "NOMEMORY_EMBEDDING_DIMENSION": "4", **more,
    }  # fmt: skip


def connected(target: str) -> grpc.Channel:
    """Open a channel with its own connection."""
    return grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])


@dataclass
class Fleet:
    """A running server. `log` is the file of its standard error."""

    process: subprocess.Popen[str]
    target: str
    log: Path
    open: ExitStack = field(default_factory=ExitStack)

    def channel(self) -> grpc.Channel:
        """Open a connection until the server context exits."""
        return self.open.enter_context(connected(self.target))

    def lines(self) -> list[dict[str, Any]]:
        """Return the JSON lines of the log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def children(self, pattern: str) -> list[int]:
        """Return the ids of its worker processes whose command line matches a pattern."""
        listed = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "-f", pattern],  # noqa: S607 - wherever the system has it
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
        return [int(line) for line in listed.split()]


@contextmanager
def fleet(data: Path, **more: str) -> Iterator[Fleet]:
    """Run a server until the context exits; then kill it."""
    log = data.with_suffix(".log")
    with log.open("a") as errors:
        process = subprocess.Popen(
            command(), env=environment(data, **more), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout
    running = Fleet(process, address_in(process.stdout.readline()), log)
    try:
        with running.open:
            yield running
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def until(happened: Callable[[], bool], longest_s: float = 30.0) -> bool:
    """Wait for a condition; return False at the timeout."""
    give_up = time.monotonic() + longest_s
    while not happened():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    return bool(state) and not state.startswith("Z")
