"""How long changes have waited that an index does not have."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable

_MARKS_MAX = 4096


class IndexLag:
    """Remembers when the log was how far.

    Args:
        now: the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._marks: list[tuple[int, float]] = []

    def note(self, sequence: int) -> None:
        """Note how far the log is now. Of very many, every second one of the older half is forgotten."""
        if self._marks and self._marks[-1][0] >= sequence:
            return
        self._marks.append((sequence, self._now()))
        if len(self._marks) > _MARKS_MAX:
            half = _MARKS_MAX // 2
            self._marks[:half] = self._marks[0:half:2]

    def behind_s(self, applied: int) -> float:
        """Return for how long an index has lacked the oldest change that it lacks; 0 if it has all."""
        at = bisect_right(self._marks, applied, key=lambda mark: mark[0])
        return self._now() - self._marks[at][1] if at < len(self._marks) else 0.0
