"""A fresh server in a process of its own, over a directory that goes away with it, and the CPU time that it uses."""

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
_ELSEWHERE: Final = tuple(
    f"NOMEMORY_{name}"
    for name in (
        *("DATA", "LISTEN", "HTTP", "QDRANT", "API_KEY", "JW", "TLS", "INSECURE", "RECALL_QUERY"),
        *("TARGET", "USER", "LOG_LEVEL", "DRAIN_S"),
    )
)
"""How the names of settings begin that belong to another server: where it keeps things, and who may call it."""


class ServerStartError(Exception):
    """The server did not start. It has said why on standard error."""


@dataclass(frozen=True, slots=True)
class TemporaryServer:
    """A running server: its address, its process, and the URL at which it serves HTTP; empty: it does not."""

    target: str
    process_id: int
    http: str = ""

    def cpu_ms(self) -> float | None:
        """Return the CPU time of its whole process tree; None where the system does not tell."""
        return cpu_ms(process_tree(self.process_id))


@contextmanager
def temporary_server(overrides: Mapping[str, str | None]) -> Iterator[TemporaryServer]:
    """Run a server for the time of a `with`, on a free port of this machine, without credentials.

    Args:
        overrides: settings as environment variables, over those of this process that say how to search; None: unset.

    Raises:
        ServerStartError: see there.
    """
    with tempfile.TemporaryDirectory(prefix="nomemory-") as data:
        own = {"NOMEMORY_DATA": data, "NOMEMORY_LISTEN": "127.0.0.1:0", "NOMEMORY_DRAIN_TIMEOUT_S": "0"}
        wanted = {**_inherited(), **own, "NOMEMORY_LOG_LEVEL": "warning", **overrides}
        environment = {name: value for name, value in wanted.items() if value is not None}
        with child_process.start(_NOMEMORY, "serve", environment=environment) as process:
            try:
                target = ready_address(process)
                http = ready_address(process) if wanted.get("NOMEMORY_HTTP_LISTEN") else ""
                yield TemporaryServer(target, process.pid, http)
            finally:
                _stop(process)


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_ELSEWHERE)}


def ready_address(process: subprocess.Popen[str]) -> str:
    """Read the address from the line by which `nomemory serve` says that it is ready.

    Raises:
        ServerStartError: it ended instead.
    """
    ready = process.stdout.readline().split() if process.stdout else []
    for word in ready:
        if ":" in word:
            return word.rstrip(".")
    raise ServerStartError("the server did not start")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_EXIT_MAX_S)
    except subprocess.TimeoutExpired:
        process.kill()


def process_tree(pid: int) -> list[int]:
    """Return a process and all its descendants; only itself where the system does not list them."""
    children = [child for thread in (_PROC / f"{pid}/task").glob("*") for child in _children(thread)]
    return [pid] + [below for child in children for below in process_tree(child)]


def cpu_ms(pids: list[int]) -> float | None:
    """Return the CPU time that processes have used so far, over all running threads; None where it is unknown."""
    spent = [_thread_ns(thread) for pid in pids for thread in (_PROC / f"{pid}/task").glob("*")]
    return sum(spent) / 1e6 if spent else None


def _children(thread: Path) -> list[int]:
    try:
        return [int(child) for child in (thread / "children").read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):  # it has just ended, or the system does not tell
        return []


def _thread_ns(thread: Path) -> int:
    try:
        return int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
