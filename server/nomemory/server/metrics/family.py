"""What a metric is: its name, its kind, its labels, and what people need to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a metric is read."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with all of its labels.

    Attributes:
        name: as Prometheus knows it, without `_bucket`, `_sum` and `_count`.
        kind: how it is read.
        labels: their names. Values come from the contract, or are names of the server's own parts: nothing that a
            caller sends is ever one.
        meaning: a sentence.
        advice: what to do when it is bad.
        bounds: of a histogram, the upper bounds of its buckets, in rising order.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    advice: str
    bounds: tuple[float, ...] = ()
