"""How long the oldest change has waited that an index lacks."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Final

_SCRAPES_KEPT: Final = 4096
"""At one scrape every 15 seconds these cover 17 hours, the longest lag that can be reported."""


class IndexLag:
    """Remembers the log's latest sequence at each scrape.

    Args:
        now: the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._scrapes: deque[tuple[int, float]] = deque(maxlen=_SCRAPES_KEPT)

    def record(self, sequence: int) -> None:
        """Record the log's latest sequence of now."""
        if not self._scrapes or self._scrapes[-1][0] < sequence:
            self._scrapes.append((sequence, self._now()))

    def lag_s(self, checkpoint: int) -> float:
        """Return the age of the first scrape beyond an index's checkpoint, in seconds; 0 if there is none."""
        index = bisect_right(self._scrapes, checkpoint, key=lambda scrape: scrape[0])
        return self._now() - self._scrapes[index][1] if index < len(self._scrapes) else 0.0
