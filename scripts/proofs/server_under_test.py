"""Server under test: `nomemory serve` with a data directory that persists over restarts."""

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

from evaluation.temporary_server import ServerStartError, read_ready_address
from proofs.processes import find_pids_by_role, select_running_pids

_READY_S = 120.0
_EXIT_S = 30.0
_ALONE_S = 15.0
"""Seconds that workers may run after the main process was killed."""


@dataclass(slots=True)
class ServerUnderTest:
    """A server that tests start, kill and stop.

    Attributes:
        settings: environment variables; NoMemory settings of this process are not inherited.
        log: file to which the standard error of all runs is appended.
        target: HOST:PORT of the gRPC API.
        http: HOST:PORT of the HTTP API, if the settings enable it.
    """

    data: Path
    settings: Mapping[str, str]
    log: Path
    target: str = ""
    http: str = ""
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> float:
        """Start the server; return the seconds until it is ready.

        Raises:
            ServerStartError: the server exited or was not ready in time; the server's log file states the reason.
        """
        began = time.monotonic()
        self._spawn()
        self._wait_until_ready()
        return time.monotonic() - began

    def start_and_kill(self, after_s: float) -> None:
        """Start the server and kill all its processes after a delay, ready or not."""
        self._spawn()
        time.sleep(after_s)
        self.kill()

    def _spawn(self) -> None:
        defaults = {"NOMEMORY_DATA": str(self.data), "NOMEMORY_LISTEN": "127.0.0.1:0", "NOMEMORY_DRAIN_TIMEOUT_S": "1"}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NOMEMORY_", "OPENAI_"))}
        with self.log.open("a") as errors:
            self._process = child_process.start_program(
                child_process.NOMEMORY, "serve", environment={**inherited, **defaults, **self.settings}, stderr=errors
            )

    def _wait_until_ready(self) -> None:
        process = self._get_running_process()
        timer = threading.Timer(_READY_S, process.kill)
        timer.start()
        try:
            self.target = read_ready_address(process)
            if self.settings.get("NOMEMORY_HTTP_LISTEN"):
                self.http = read_ready_address(process).removeprefix("http://")
        except ServerStartError:
            process.kill()
            process.wait()
            self._process = None
            raise
        finally:
            timer.cancel()

    @property
    def is_running(self) -> bool:
        """Whether the main process of the server runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Id of the main process."""
        return self._get_running_process().pid

    @property
    def servers(self) -> tuple[ServerUnderTest, ...]:
        """A tuple of this server, for compatibility with `Replicas.servers`."""
        return (self,)

    def find_pids_by_role(self) -> dict[str, list[int]]:
        """Return the process ids of the server by role."""
        return find_pids_by_role(self.pid)

    def open_channel(self) -> grpc.Channel:
        """Open a new gRPC channel to the server."""
        limits = [("grpc.max_receive_message_length", 64 * 1024 * 1024), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(self.target, options=limits)

    def kill(self) -> None:
        """Kill all processes of the server."""
        pids = {pid for group in self.find_pids_by_role().values() for pid in group}
        for pid in pids:
            _send_signal(pid, signal.SIGKILL)
        self._wait_for_exit()

    def kill_writer(self) -> set[int]:
        """Kill only the main process; return the ids of workers that still run after 15 s, and kill them."""
        others = {pid for group in self.find_pids_by_role().values() for pid in group} - {self.pid}
        _send_signal(self.pid, signal.SIGKILL)
        self._wait_for_exit()
        deadline = time.monotonic() + _ALONE_S
        while (remaining := select_running_pids(others)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in remaining:
            _send_signal(pid, signal.SIGKILL)
        return remaining

    def stop(self) -> float:
        """Stop the server with SIGTERM, or kill it after 30 s; return the elapsed seconds."""
        began = time.monotonic()
        process = self._get_running_process()
        process.terminate()
        try:
            process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._wait_for_exit()
        return time.monotonic() - began

    def _wait_for_exit(self) -> None:
        process = self._get_running_process()
        process.wait(_EXIT_S)
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        self._process = None

    def _get_running_process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the server is not running: call `start` first")
        return self._process


def _send_signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # the process has exited
        return
