"""A server under test: `nomemory serve` in processes of its own, over a directory that outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import child_process
import grpc

from evaluation.temporary_server import ServerStartError, ready_address
from proofs.processes import by_role, running

_READY_S = 120.0
_EXIT_S = 30.0
_ALONE_S = 15.0
"""How long workers may outlive the server."""


@dataclass(slots=True)
class ServerUnderTest:
    """Starts, kills and stops a server.

    Attributes:
        settings: environment variables; none of NoMemory's is inherited.
        log: where its standard error goes, one run after the other.
        target: where it serves gRPC.
        http: where it serves HTTP, if the settings say so: HOST:PORT.
    """

    data: Path
    settings: Mapping[str, str]
    log: Path
    target: str = ""
    http: str = ""
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> float:
        """Start it; return the seconds until it answers.

        Raises:
            ServerStartError: it ended, or is not ready in time. Its log says why.
        """
        began = time.monotonic()
        self._spawn()
        self._wait_until_ready()
        return time.monotonic() - began

    def start_and_kill(self, after_s: float) -> None:
        """Start it, and kill all its processes before or after it answers."""
        self._spawn()
        time.sleep(after_s)
        self.kill()

    def _spawn(self) -> None:
        own = {"NOMEMORY_DATA": str(self.data), "NOMEMORY_LISTEN": "127.0.0.1:0", "NOMEMORY_DRAIN_TIMEOUT_S": "1"}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NOMEMORY_", "OPENAI_"))}
        with self.log.open("a") as errors:
            self._process = child_process.start(
                child_process.NOMEMORY, "serve", environment={**inherited, **own, **self.settings}, stderr=errors
            )

    def _wait_until_ready(self) -> None:
        process = self._running()
        timer = threading.Timer(_READY_S, process.kill)
        timer.start()
        try:
            self.target = ready_address(process)
            if self.settings.get("NOMEMORY_HTTP_LISTEN"):
                self.http = ready_address(process).removeprefix("http://")
        except ServerStartError:
            process.kill()
            process.wait()
            self._process = None
            raise
        finally:
            timer.cancel()

    @property
    def is_running(self) -> bool:
        """Whether the writer's process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The writer's process."""
        return self._running().pid

    @property
    def servers(self) -> tuple[ServerUnderTest, ...]:
        """This server, as `Replicas` lists several."""
        return (self,)

    def processes(self) -> dict[str, list[int]]:
        """Return its processes by role."""
        return by_role(self.pid)

    def channel(self) -> grpc.Channel:
        """Open a connection of its own."""
        limits = [("grpc.max_receive_message_length", 64 * 1024 * 1024), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(self.target, options=limits)

    def kill(self) -> None:
        """Kill all its processes at once."""
        pids = {pid for some in self.processes().values() for pid in some}
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        self._reap()

    def kill_writer(self) -> set[int]:
        """Kill the writer alone; return those processes that outlive it for long."""
        others = {pid for some in self.processes().values() for pid in some} - {self.pid}
        _signal(self.pid, signal.SIGKILL)
        self._reap()
        give_up = time.monotonic() + _ALONE_S
        while (left := running(others)) and time.monotonic() < give_up:
            time.sleep(0.05)
        for pid in left:
            _signal(pid, signal.SIGKILL)
        return left

    def stop(self) -> float:
        """Ask it to end; return the seconds that it takes, after which it is killed."""
        began = time.monotonic()
        process = self._running()
        process.terminate()
        try:
            process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reap()
        return time.monotonic() - began

    def _reap(self) -> None:
        process = self._running()
        process.wait(_EXIT_S)
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        self._process = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has just ended
        return
