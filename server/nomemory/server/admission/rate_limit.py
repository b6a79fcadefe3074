"""How often a key may come: so many a second, with a burst of two seconds' worth."""

from __future__ import annotations

from collections.abc import Callable, Hashable

_BURST_S = 2.0
_KEPT_MAX = 4096


class RateLimit:
    """A leaky bucket for each key, kept as the time at which it will be empty.

    Args:
        per_s: how many a second; 0 for no limit.
        now: the time in seconds.
    """

    def __init__(self, per_s: float, now: Callable[[], float]) -> None:
        self._interval_s = 1 / per_s if per_s else 0.0
        self._burst_s = max(_BURST_S, self._interval_s)
        self._now = now
        self._empty_at: dict[Hashable, float] = {}

    def wait_s(self, key: Hashable) -> float:
        """Count one more and return 0, or return after how many seconds there is room for it."""
        if not self._interval_s:
            return 0.0
        now = self._now()
        empty_at = max(now, self._empty_at.get(key, now)) + self._interval_s
        if empty_at - now > self._burst_s:
            return empty_at - now - self._burst_s
        if len(self._empty_at) >= _KEPT_MAX:
            self._empty_at = {one: at for one, at in self._empty_at.items() if at > now}
        self._empty_at[key] = empty_at
        return 0.0
