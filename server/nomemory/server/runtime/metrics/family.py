"""The definition of a metric: its name, kind, labels and description."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A metric with all of its labels.

    Attributes:
        name: its name in Prometheus, without `_bucket`, `_sum` and `_count`.
        meaning: what it counts or measures.
        advice: what to do about a bad value.
        labels: the names of its labels. Their values come from the contract, or name parts of the server; nothing
            that a caller sends is ever one.
        bounds: the upper bounds of a histogram's buckets, in rising order.
    """

    name: str
    meaning: str
    advice: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def kind(self) -> Kind:
        """The type. The names of counters, and of no other metrics, end with `_total`."""
        if self.bounds:
            return Kind.HISTOGRAM
        return Kind.COUNTER if self.name.endswith("_total") else Kind.GAUGE
