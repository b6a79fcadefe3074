"""Statistics of a process: its state, CPU time and memory."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc/self/stat")
_CPU_FIELD, _SYSTEM_CPU_FIELD = 11, 12
"""Field offsets in /proc/PID/stat, relative to the state field after the process name."""
_WORKING_STATES = frozenset("RDU")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """The statistics of a process at one point in time.

    Attributes:
        state: the state code of `ps`, such as R (running), D or U (disk wait), S (sleeping) or T (stopped).
        cpu_s: the CPU time that the process has used so far, in seconds.
        private_bytes: the resident memory; on Linux without file-backed pages.
    """

    state: str
    cpu_s: float
    private_bytes: int

    def has_worked_since(self, before: ProcessStats | None) -> bool:
        """Return whether the process is running or waiting for a disk, or has used CPU time since `before`."""
        return self.state in _WORKING_STATES or (before is not None and self.cpu_s > before.cpu_s)


def read_process_stats(process_id: int) -> ProcessStats | None:
    """Return the statistics of a process, or None if it has exited.

    On systems without /proc, the function runs `ps`.
    """
    try:
        return _read_from_proc(process_id) if _PROC.exists() else _read_from_ps(process_id)
    except (OSError, ValueError, IndexError):
        return None


def _read_from_proc(process_id: int) -> ProcessStats:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    _, resident, shared, *_ = map(int, Path(f"/proc/{process_id}/statm").read_text().split())
    ticks = int(fields[_CPU_FIELD]) + int(fields[_SYSTEM_CPU_FIELD])
    return ProcessStats(fields[0], ticks / os.sysconf("SC_CLK_TCK"), (resident - shared) * os.sysconf("SC_PAGE_SIZE"))


def _read_from_ps(process_id: int) -> ProcessStats:
    command = ["ps", "-o", "state=,time=,rss=", "-p", str(process_id)]
    state, cpu, resident = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 - a fixed command
    seconds = 0.0
    for unit in cpu.replace("-", ":").split(":"):
        seconds = seconds * 60 + float(unit)
    return ProcessStats(state[0], seconds, int(resident) * _KIB)
