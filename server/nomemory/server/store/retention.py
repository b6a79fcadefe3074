"""The retention policy of messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

NEVER_US: Final = 2**63 - 1
"""A time later than every valid timestamp."""


def _get_now_us() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """A maximum age that applies to all messages, in addition to the expiry time of each message.

    Attributes:
        max_age_us: maximum age of a message in microseconds, measured from its `ts`; None for no limit.
        now_us: returns the current Unix time in microseconds.
    """

    max_age_us: int | None = None
    now_us: Callable[[], int] = _get_now_us

    @classmethod
    def from_days(cls, days: float) -> RetentionPolicy:
        """Return the policy for a maximum age in days; 0 for no limit."""
        return cls(round(days * 86_400_000_000) or None)

    def compute_cutoff_us(self) -> int | None:
        """Return the latest `ts` of messages that now exceed the maximum age; None if there is no maximum age."""
        return None if self.max_age_us is None else self.now_us() - self.max_age_us
