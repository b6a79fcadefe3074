"""One scrape of a server's metrics, in Prometheus' text format."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(r"(nomemory_\w+)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Scrape:
    """What a server told of itself: the values of each series, by their labels."""

    series: Mapping[str, Mapping[Labels, float]]

    def has(self, name: str) -> bool:
        """Return whether a series has a value at all."""
        return bool(self.series.get(name))

    def sum(self, name: str, **labels: str) -> float:
        """Add up what has some labels."""
        return sum(value for having, value in self._values(name) if labels.items() <= having)

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Add up what has some labels, by the value of another one."""
        sums: defaultdict[str, float] = defaultdict(float)
        for having, value in self._values(name):
            if labels.items() <= having:
                sums[dict(having)[label]] += value
        return dict(sums)

    def labels(self, name: str) -> Iterator[dict[str, str]]:
        """Yield the labels of every value that is not 0."""
        yield from (dict(having) for having, value in self._values(name) if value)

    def _values(self, name: str) -> Iterator[tuple[Labels, float]]:
        yield from self.series.get(name, {}).items()


def parsed(text: str) -> Scrape:
    """Read a scrape. What is not of NoMemory is left out.

    Raises:
        ValueError: a value is no number.
    """
    series: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for line in text.splitlines():
        if (sample := _SAMPLE.fullmatch(line)) is not None:
            name, labels, value = sample.groups()
            series[name][_labels(labels or "")] = float(value)
    return Scrape(dict(series))


def _labels(text: str) -> Labels:
    return frozenset((name, _ESCAPE.sub(_unescaped, value)) for name, value in _LABEL.findall(text))


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]
