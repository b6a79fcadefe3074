"""The CPU time of a process and of all that it started (Linux)."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants; only itself where the system does not list them."""
    children = [child for thread in (_PROC / f"{pid}/task").glob("*") for child in _children(thread)]
    return [pid] + [below for child in children for below in tree(child)]


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
