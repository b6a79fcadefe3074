"""What a process and all that it started have used (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

from evaluation.temporary_server import process_tree

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _CUTIME, _CSTIME = range(11, 15)
"""Fields of `/proc/PID/stat`, counted from the one after the command's name."""


def cpu_s(pids: list[int]) -> float:
    """Return the CPU time that processes have used, user and system, over all their threads."""
    return sum(map(_cpu_s, pids))


def family_cpu_s(parent: int) -> float:
    """Return the CPU time of a process, of all below it, and of its children that have ended; 0: no process."""
    return run_ns(process_tree(parent)) / 1e9 + _cpu_s(parent, _CUTIME, _CSTIME) if parent else 0.0


def run_ns(pids: list[int]) -> int:
    """Return the nanoseconds that the threads which are alive in processes have run: finer than `cpu_s`."""
    return sum(_run_ns(path) for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def pss_mb(pids: list[int]) -> dict[str, float]:
    """Return the memory of processes, what they share counted once: in all, and of it what no file stands behind."""
    return {"pss": memory_mb(pids, "Pss"), "anonymous": memory_mb(pids, "Pss_Anon")}


def memory_mb(pids: list[int], kind: str) -> float:
    """Return the sum of a line of `/proc/PID/smaps_rollup` over processes."""
    kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            kib += int(rest.split()[0]) if name == kind else 0
    return kib / 1024


def _run_ns(schedstat: Path) -> int:
    try:
        return int(schedstat.read_text(encoding="ascii").split()[0])
    except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
        return 0


def _cpu_s(pid: int, user: int = _UTIME, system: int = _STIME) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0.0
    return (int(fields[user]) + int(fields[system])) / _TICKS_PER_S
