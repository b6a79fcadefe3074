"""Counters and histograms. Meters are not thread-safe; only the event loop may use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nomemory.server.runtime.metrics.family import MetricFamily
from nomemory.server.runtime.metrics.process_registry import ProcessRegistry
from nomemory.server.runtime.metrics.samples import Histogram, Labels, Samples


class Meters:
    """The values of a server's counters and histograms.

    Attributes:
        processes: the statistics of the server's processes.
    """

    def __init__(self) -> None:
        self.processes = ProcessRegistry()
        self._counters: dict[MetricFamily, Counter[Labels]] = {}
        self._histograms: dict[tuple[MetricFamily, Labels], Histogram] = {}
        self._sources: list[Callable[[Samples], None]] = []

    def count(self, family: MetricFamily, *labels: str, by: int = 1) -> None:
        """Increase a counter."""
        self._counters.setdefault(family, Counter())[labels] += by

    def observe(self, family: MetricFamily, value: float, *labels: str) -> None:
        """Record a value in the histogram of a family that has the given label values."""
        histogram = self._histograms.get((family, labels))
        if histogram is None:
            histogram = self._histograms[family, labels] = Histogram(family.bounds)
        histogram.add(value)

    def add_source(self, source: Callable[[Samples], None]) -> None:
        """Register a function that adds samples at each scrape."""
        self._sources.append(source)

    def samples(self) -> Samples:
        """Return the current values of all counters, histograms and sources."""
        samples = Samples()
        for family, counter in self._counters.items():
            for labels, count in counter.items():
                samples.set_value(family, count, *labels)
        for (family, labels), histogram in self._histograms.items():
            samples.set_value(family, histogram.copy(), *labels)
        for source in self._sources:
            source(samples)
        return samples
