"""The figures of one process, or of several together, at one moment.

Adds up what the processes of a server have counted, over their lives.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, field

from nomemory.server.metrics.catalog import BY_NAME, Family, Kind

Labels = tuple[str, ...]
"""The values of a family's labels, in their order."""


class Distribution:
    """How often values fell into each bucket of a histogram, and what they add up to.

    Attributes:
        counts: one for each bound, and one for what is beyond the last.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Distribution) -> None:
        """Count what another one has counted."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def copy(self) -> Distribution:
        """Return one with the same counts."""
        made = Distribution(self.bounds)
        made.add(self)
        return made


Value = float | Distribution


@dataclass(slots=True)
class Samples:
    """Values by the name of their family and by their labels. It crosses the pipe between processes."""

    values: dict[str, dict[Labels, Value]] = field(default_factory=dict)

    def put(self, family: Family, value: Value, *labels: str) -> None:
        """Set a value."""
        self.values.setdefault(family.name, {})[labels] = value

    def add(self, other: Samples) -> None:
        """Add the values of other samples to these."""
        for name, values in other.values.items():
            mine = self.values.setdefault(name, {})
            for labels, value in values.items():
                mine[labels] = _sum(mine.get(labels), value)

    def counted(self) -> Samples:
        """Return what only ever grows: the counters and histograms."""
        return Samples({name: values for name, values in self.values.items() if BY_NAME[name].kind is not Kind.GAUGE})


def _sum(mine: Value | None, more: Value) -> Value:
    if isinstance(more, Distribution):
        made = more.copy()
        if isinstance(mine, Distribution):
            made.add(mine)
        return made
    return more + mine if isinstance(mine, float | int) else more


class Totals:
    """Keeps the latest figures of each process, so that no sum goes down when a process is replaced."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, Samples]] = {}
        self._ended = Samples()

    def note(self, process: str, process_id: int, samples: Samples) -> None:
        """Note the figures of a process. Those of its predecessor stay counted."""
        before = self._latest.get(process)
        if before is not None and before[0] != process_id:
            self._ended.add(before[1].counted())
        self._latest[process] = process_id, samples

    def sum(self, heard: Collection[str]) -> Samples:
        """Return everything together. Of processes that were not heard now, only what they had counted."""
        total = Samples()
        total.add(self._ended)
        for process, (_, samples) in self._latest.items():
            total.add(samples if process in heard else samples.counted())
        return total
