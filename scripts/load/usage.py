"""Read the CPU time and the memory of processes from `/proc` (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

from evaluation.temporary_server import list_process_tree

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _CUTIME, _CSTIME = range(11, 15)
"""Indexes of the fields of `/proc/PID/stat` after the command name."""


def measure_cpu_s(pids: list[int]) -> float:
    """Return the sum of the user and system CPU time of processes in seconds."""
    return sum(map(_read_cpu_s, pids))


def measure_tree_cpu_s(parent: int) -> float:
    """Return the CPU time in seconds of a process tree, including exited children; return 0 for process id 0."""
    return (
        measure_run_time_ns(list_process_tree(parent)) / 1e9 + _read_cpu_s(parent, _CUTIME, _CSTIME) if parent else 0.0
    )


def measure_run_time_ns(pids: list[int]) -> int:
    """Return the CPU time of the live threads of processes in nanoseconds; more precise than `measure_cpu_s`."""
    return sum(_read_run_time_ns(path) for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def measure_pss_mb(pids: list[int]) -> dict[str, float]:
    """Return the proportional set size of processes and its anonymous part, in MiB."""
    return {"pss": measure_memory_mb(pids, "Pss"), "anonymous": measure_memory_mb(pids, "Pss_Anon")}


def measure_memory_mb(pids: list[int], kind: str) -> float:
    """Return the sum of one field of `/proc/PID/smaps_rollup` over processes, in MiB."""
    kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            kib += int(rest.split()[0]) if name == kind else 0
    return kib / 1024


def _read_run_time_ns(schedstat: Path) -> int:
    try:
        return int(schedstat.read_text(encoding="ascii").split()[0])
    except (FileNotFoundError, ProcessLookupError):  # the thread has exited
        return 0


def _read_cpu_s(pid: int, user: int = _UTIME, system: int = _STIME) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # the process has exited
        return 0.0
    return (int(fields[user]) + int(fields[system])) / _TICKS_PER_S
