"""How long to wait before something that failed is tried again."""

from __future__ import annotations


class Backoff:
    """Waits that double each time.

    Args:
        first_s: the first wait.
        longest_s: the longest wait.
        at_once: whether the first try needs no wait at all; `first_s` is then the second.
    """

    def __init__(self, first_s: float, longest_s: float, *, at_once: bool = False) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._start_s = 0.0 if at_once else first_s
        self._wait_s = self._start_s

    def next_s(self) -> float:
        """Return how long to wait now, in seconds."""
        wait_s = self._wait_s
        self._wait_s = min(max(2 * wait_s, self._first_s), self._longest_s)
        return wait_s

    def reset(self) -> None:
        """Begin again with the first wait: it worked."""
        self._wait_s = self._start_s
