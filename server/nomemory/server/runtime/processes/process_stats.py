"""State, CPU time and memory of a process, as the system reports them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc/self/stat")
_CPU_FIELD, _SYSTEM_CPU_FIELD = 11, 12
"""Indices in /proc/PID/stat, counted from the state, which follows the name in brackets."""
_WORKING_STATES = frozenset("RDU")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """A process at one moment.

    Attributes:
        state: the system's letter: R (running), D or U (waiting for a disk), S (sleeping), T (stopped).
        cpu_s: CPU time used so far, in seconds.
        private_bytes: memory; on Linux without pages of files, which the system can take back.
    """

    state: str
    cpu_s: float
    private_bytes: int

    def works_since(self, before: ProcessStats | None) -> bool:
        """Return whether it is running, or has used CPU time since an earlier moment."""
        return self.state in _WORKING_STATES or (before is not None and self.cpu_s > before.cpu_s)


def process_stats(process_id: int) -> ProcessStats | None:
    """Return the statistics of a process; None if it is gone. Without /proc this takes some milliseconds."""
    try:
        return _from_proc(process_id) if _PROC.exists() else _from_ps(process_id)
    except (OSError, ValueError, IndexError):
        return None


def _from_proc(process_id: int) -> ProcessStats:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    _, resident, shared, *_ = map(int, Path(f"/proc/{process_id}/statm").read_text().split())
    ticks = int(fields[_CPU_FIELD]) + int(fields[_SYSTEM_CPU_FIELD])
    return ProcessStats(fields[0], ticks / os.sysconf("SC_CLK_TCK"), (resident - shared) * os.sysconf("SC_PAGE_SIZE"))


def _from_ps(process_id: int) -> ProcessStats:
    command = ["ps", "-o", "state=,time=,rss=", "-p", str(process_id)]
    state, cpu, resident = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 - ours
    seconds = 0.0
    for unit in cpu.replace("-", ":").split(":"):
        seconds = seconds * 60 + float(unit)
    return ProcessStats(state[0], seconds, int(resident) * _KIB)
