"""The values of metrics at one moment."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Self

from nomemory.server.runtime.metrics.family import Family

Labels = tuple[str, ...]
"""The values of a family's labels, in their order."""


class Distribution:
    """The values of a histogram.

    Attributes:
        counts: the values in each bucket; the last one counts those beyond the highest bound.
        total: the sum of all values.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Self:
        """Return a copy."""
        copy = type(self)(self.bounds)
        copy.counts = self.counts.copy()
        copy.total = self.total
        return copy


Value = float | Distribution


@dataclass(frozen=True, slots=True)
class Samples:
    """Values by the name of their family and by their labels."""

    values: dict[str, dict[Labels, Value]] = field(default_factory=dict)

    def put(self, family: Family, value: Value, *labels: str) -> None:
        """Set a value."""
        self.values.setdefault(family.name, {})[labels] = value
