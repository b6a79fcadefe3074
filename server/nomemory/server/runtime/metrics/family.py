"""Metric family definitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    """The type of a Prometheus metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class MetricFamily:
    """A metric family.

    Attributes:
        name: the Prometheus name, without `_bucket`, `_sum` and `_count`.
        advice: what unusual values mean and what the operator should do.
        labels: label names. The value of a label never comes from the content of a request.
        bounds: the upper bounds of histogram buckets, ascending; empty for other types.
    """

    name: str
    meaning: str
    advice: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def kind(self) -> MetricType:
        """The type: histogram if the metric has buckets, counter if its name ends with `_total`, otherwise gauge."""
        if self.bounds:
            return MetricType.HISTOGRAM
        return MetricType.COUNTER if self.name.endswith("_total") else MetricType.GAUGE
