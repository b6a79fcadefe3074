"""Metric samples."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Self

from nomemory.server.runtime.metrics.family import MetricFamily

Labels = tuple[str, ...]
"""Label values, in the order of the family's label names."""


class Histogram:
    """The values of one histogram.

    Attributes:
        bounds: the upper bounds of the buckets.
        counts: the number of values in each bucket, including a last bucket without an upper bound.
        total: the sum of all values in the histogram.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Self:
        """Return a copy of the histogram that later values do not change."""
        copy = type(self)(self.bounds)
        copy.counts = self.counts.copy()
        copy.total = self.total
        return copy


Value = float | Histogram


@dataclass(frozen=True, slots=True)
class Samples:
    """The values of samples by family name and label values."""

    values: dict[str, dict[Labels, Value]] = field(default_factory=dict)

    def set_value(self, family: MetricFamily, value: Value, *labels: str) -> None:
        """Set the value of the sample with the given family and label values."""
        self.values.setdefault(family.name, {})[labels] = value
