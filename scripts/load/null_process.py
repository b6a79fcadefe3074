"""Run the servers of `load.null_server` in a separate process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import child_process

from evaluation.temporary_server import list_process_tree


@dataclass(frozen=True, slots=True)
class NullServers:
    """The addresses and the process ids of the servers that `load.null_server` runs."""

    intercepted: str
    bare: str
    wrapped: str
    pids: list[int]


@contextmanager
def running_null_servers() -> Iterator[NullServers]:
    """Run the null servers in a separate process until the context ends."""
    process = child_process.start_program("load.null_server", stderr=subprocess.DEVNULL)
    try:
        intercepted, bare, wrapped = process.stdout.readline().split() if process.stdout else ("", "", "")
        yield NullServers(intercepted, bare, wrapped, list_process_tree(process.pid))
    finally:
        process.terminate()
        process.wait()
