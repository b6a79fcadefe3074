"""Memory, file descriptors and threads of a process (Linux; only memory on other systems)."""

from __future__ import annotations

import subprocess
from pathlib import Path


def read_rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MiB; 0 if it has exited."""
    rss_kb = subprocess.run(  # noqa: S603 - fixed arguments
        ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - system program
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return int(rss_kb) / 1024 if rss_kb else 0.0


def count_open_descriptors(pid: int) -> int:
    """Return the number of open file descriptors of a process; 0 if unknown."""
    return _count_entries(Path(f"/proc/{pid}/fd"))


def count_threads(pid: int) -> int:
    """Return the number of threads of a process; 0 if unknown."""
    return _count_entries(Path(f"/proc/{pid}/task"))


def _count_entries(path: Path) -> int:
    try:
        return sum(1 for _ in path.iterdir())
    except OSError:  # the process has exited, or the system has no /proc
        return 0
