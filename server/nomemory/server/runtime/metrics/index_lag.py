"""The lag of an index: the age, in seconds, of the oldest change that is not indexed."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Final

_SCRAPES_KEPT: Final = 4096
"""Maximum number of stored scrapes. At one scrape every 15 seconds, the maximum reported lag is 17 hours."""


class IndexLag:
    """Computes the lag of an index from the latest sequence number of the message log at each scrape.

    Args:
        now: returns the current time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._scrapes: deque[tuple[int, float]] = deque(maxlen=_SCRAPES_KEPT)

    def record_sequence(self, sequence: int) -> None:
        """Record the latest sequence number of the message log."""
        if not self._scrapes or self._scrapes[-1][0] < sequence:
            self._scrapes.append((sequence, self._now()))

    def compute_lag_s(self, checkpoint: int) -> float:
        """Return the seconds since the first scrape with a sequence number above `checkpoint`; 0 if there is none."""
        index = bisect_right(self._scrapes, checkpoint, key=lambda scrape: scrape[0])
        return self._now() - self._scrapes[index][1] if index < len(self._scrapes) else 0.0
