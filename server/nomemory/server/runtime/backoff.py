"""Exponential backoff."""

from __future__ import annotations


class Backoff:
    """A sequence of retry delays that double after each attempt.

    Args:
        first_s: the first delay, in seconds.
        max_s: the upper limit of the delays, in seconds.
        retry_immediately: whether the first retry has no delay, so that `first_s` is the delay of the second retry.
    """

    def __init__(self, first_s: float, max_s: float, *, retry_immediately: bool = False) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._start_s = 0.0 if retry_immediately else first_s
        self._wait_s = self._start_s

    def compute_next_delay_s(self) -> float:
        """Return the delay before the next retry, in seconds."""
        wait_s = self._wait_s
        self._wait_s = min(max(2 * wait_s, self._first_s), self._max_s)
        return wait_s

    def reset(self) -> None:
        """Return to the first delay, after an attempt has succeeded."""
        self._wait_s = self._start_s
