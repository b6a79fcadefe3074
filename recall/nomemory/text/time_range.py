"""Half-open time ranges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A half-open range of timezone-aware times. None means unbounded."""

    since: datetime | None = None
    until: datetime | None = None


ANY_TIME = TimeRange()
