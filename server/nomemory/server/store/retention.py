"""Retention: how long messages live."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

NEVER_US: Final = 2**63 - 1
"""Later than every moment of the contract."""


def _now_us() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Tells which messages have expired: by their own `expire_us`, or because they are too old.

    Attributes:
        most_us: the greatest age, counted from `ts`, in microseconds; None: there is none.
        now_us: the clock, in microseconds since the epoch.
    """

    most_us: int | None = None
    now_us: Callable[[], int] = _now_us

    @classmethod
    def of_days(cls, days: float) -> RetentionPolicy:
        """Return those of a greatest age in days; 0: there is none."""
        return cls(round(days * 86_400_000_000) or None)

    def oldest_us(self) -> int | None:
        """Return the `ts` at which, and before which, everything is too old by now; None: nothing is."""
        return None if self.most_us is None else self.now_us() - self.most_us
