"""What the system says about a process."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc/self/stat")
_CPU_AT, _SYSTEM_CPU_AT = 11, 12
"""Places in /proc/PID/stat, counted from the state, which follows the name in brackets."""
_WORKING = frozenset("RDU")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Vitals:
    """A process at one moment.

    Attributes:
        state: the system's letter for it; the first of R (runs), D or U (waits for a disk), S (waits), T (stopped).
        cpu_s: the time that it has used, in seconds.
        private_bytes: its memory; on Linux without pages of files, which the system can take back.
    """

    state: str
    cpu_s: float
    private_bytes: int

    def works_since(self, before: Vitals | None) -> bool:
        """Return whether it does something, or has done so since an earlier moment."""
        return self.state in _WORKING or (before is not None and self.cpu_s > before.cpu_s)


def vitals(process_id: int) -> Vitals | None:
    """Look at a process; None if it is gone. Where there is no /proc this takes some milliseconds."""
    try:
        return _from_proc(process_id) if _PROC.exists() else _from_ps(process_id)
    except (OSError, ValueError, IndexError):
        return None


def _from_proc(process_id: int) -> Vitals:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    _, resident, shared, *_ = map(int, Path(f"/proc/{process_id}/statm").read_text().split())
    ticks = int(fields[_CPU_AT]) + int(fields[_SYSTEM_CPU_AT])
    return Vitals(fields[0], ticks / os.sysconf("SC_CLK_TCK"), (resident - shared) * os.sysconf("SC_PAGE_SIZE"))


def _from_ps(process_id: int) -> Vitals:
    command = ["ps", "-o", "state=,time=,rss=", "-p", str(process_id)]
    state, cpu, resident = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 - ours
    seconds = 0.0
    for unit in cpu.replace("-", ":").split(":"):
        seconds = seconds * 60 + float(unit)
    return Vitals(state[0], seconds, int(resident) * _KIB)
