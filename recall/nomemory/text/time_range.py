"""A half-open range of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A half-open range of aware times; None is open."""

    since: datetime | None = None
    until: datetime | None = None


ANY_TIME = TimeRange()
