"""Metric family definitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """A Prometheus metric type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A metric family.

    Attributes:
        name: the Prometheus name, without `_bucket`, `_sum` and `_count`.
        meaning: the help text.
        advice: how to interpret unusual values and what to do.
        labels: label names. Label values are never taken from a request's content.
        bounds: the upper bounds of histogram buckets, ascending; empty for other types.
    """

    name: str
    meaning: str
    advice: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def kind(self) -> Kind:
        """The metric type. Only counter names end with `_total`."""
        if self.bounds:
            return Kind.HISTOGRAM
        return Kind.COUNTER if self.name.endswith("_total") else Kind.GAUGE
