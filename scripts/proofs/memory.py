"""What a process holds: memory, descriptors, threads (Linux; elsewhere only its memory)."""

from __future__ import annotations

import subprocess
from pathlib import Path


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process; 0 if it has ended."""
    listed = subprocess.run(  # noqa: S603 - our own command
        ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return int(listed) / 1024 if listed else 0.0


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open; 0 where the system does not tell."""
    return _count(Path(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    """Return how many threads a process has; 0 where the system does not tell."""
    return _count(Path(f"/proc/{pid}/task"))


def _count(path: Path) -> int:
    try:
        return sum(1 for _ in path.iterdir())
    except OSError:  # it has ended, or there is no such directory here
        return 0
