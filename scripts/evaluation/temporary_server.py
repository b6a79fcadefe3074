"""Temporary server process with a temporary data directory, and its CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import child_process

_NOMEMORY: Final = str(Path(sys.executable).with_name("nomemory"))
_EXIT_MAX_S: Final = 20.0
_PROC: Final = Path("/proc")
_NOT_INHERITED: Final = tuple(
    f"NOMEMORY_{name}"
    for name in (
        *("DATA", "LISTEN", "HTTP", "QDRANT", "API_KEY", "JW", "TLS", "INSECURE", "RECALL_UPSTREAM", "METRICS"),
        *("TARGET", "USER", "LOG_LEVEL", "DRAIN"),
    )
)
"""Prefixes of the settings that a temporary server must not inherit: storage, addresses and authentication."""


class ServerStartError(Exception):
    """Raised if the server does not start; the server's standard error states the reason."""


@dataclass(frozen=True, slots=True)
class TemporaryServer:
    """A running server.

    Attributes:
        target: HOST:PORT of the gRPC API.
        http: URL of the HTTP API; empty if it is disabled.
    """

    target: str
    process_id: int
    http: str = ""

    def measure_cpu_ms(self) -> float | None:
        """Return the CPU time of the process tree in milliseconds; None if the system does not report it."""
        return measure_cpu_ms(list_process_tree(self.process_id))


@contextmanager
def temporary_server(overrides: Mapping[str, str | None]) -> Iterator[TemporaryServer]:
    """Run a server on a free local port without authentication.

    Args:
        overrides: settings as environment variables, which override inherited variables; None: unset the variable.

    Raises:
        ServerStartError: the server did not start.
    """
    with tempfile.TemporaryDirectory(prefix="nomemory-") as data:
        defaults = {"NOMEMORY_DATA": data, "NOMEMORY_LISTEN": "127.0.0.1:0", "NOMEMORY_DRAIN_TIMEOUT_S": "0"}
        settings = {**_build_environment(), **defaults, "NOMEMORY_LOG_LEVEL": "warning", **overrides}
        environment = {name: value for name, value in settings.items() if value is not None}
        with child_process.start_program(_NOMEMORY, "serve", environment=environment) as process:
            try:
                target = read_ready_address(process)
                http = read_ready_address(process) if settings.get("NOMEMORY_HTTP_LISTEN") else ""
                yield TemporaryServer(target, process.pid, http)
            finally:
                _stop_process(process)


def _build_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}


def read_ready_address(process: subprocess.Popen[str]) -> str:
    """Read the address from the readiness line of `nomemory serve`.

    Raises:
        ServerStartError: the process exited before it was ready.
    """
    ready = process.stdout.readline().split() if process.stdout else []
    for word in ready:
        if ":" in word:
            return word.rstrip(".")
    raise ServerStartError("the server did not start: see its standard error")


def _stop_process(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_EXIT_MAX_S)
    except subprocess.TimeoutExpired:
        process.kill()


def list_process_tree(pid: int) -> list[int]:
    """Return the ids of a process and its descendants; only `pid` if the system does not list children."""
    children = [child for thread in (_PROC / f"{pid}/task").glob("*") for child in _list_child_pids(thread)]
    return [pid] + [descendant for child in children for descendant in list_process_tree(child)]


def measure_cpu_ms(pids: list[int]) -> float | None:
    """Return the CPU time of the running threads of processes in milliseconds; None if it is not available."""
    thread_ns = [_read_thread_run_time_ns(thread) for pid in pids for thread in (_PROC / f"{pid}/task").glob("*")]
    return sum(thread_ns) / 1e6 if thread_ns else None


def _list_child_pids(thread: Path) -> list[int]:
    try:
        return [int(child) for child in (thread / "children").read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):  # the thread has exited, or the system does not report children
        return []


def _read_thread_run_time_ns(thread: Path) -> int:
    try:
        return int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    except (FileNotFoundError, ProcessLookupError):  # the thread has exited
        return 0
