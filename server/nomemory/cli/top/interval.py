"""What happened between two scrapes."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.cli.top.scrape import Scrape
from nomemory.server.metrics import catalog


@dataclass(frozen=True, slots=True)
class Interval:
    """Two scrapes of one run of a server.

    Attributes:
        before: the earlier one; without it, the interval began when the server did.
        seconds: how long it is, more than 0.
    """

    before: Scrape | None
    now: Scrape
    seconds: float

    def rate(self, name: str, **labels: str) -> float:
        """Return how much what has some labels has grown in a second."""
        return self._grown(name, **labels) / self.seconds

    def rates(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Return how much it has grown in a second, by the value of another label."""
        earlier = self.before.by(name, label, **labels) if self.before else {}
        now = self.now.by(name, label, **labels)
        return {of: max(0.0, value - earlier.get(of, 0.0)) / self.seconds for of, value in now.items()}

    def mean(self, name: str, **labels: str) -> float | None:
        """Return the mean of a histogram's values; None where there were none."""
        count = self._grown(f"{name}_count", **labels)
        return self._grown(f"{name}_sum", **labels) / count if count else None

    def quantile(self, share: float, name: str, **labels: str) -> float | None:
        """Return the value below which a share of a histogram's values lies; within a bucket it is guessed evenly.

        Infinite: it lies beyond the last bound. None: there were no values.
        """
        grown = self.rates(f"{name}_bucket", "le", **labels)
        counts = sorted((float(bound), count) for bound, count in grown.items())
        wanted = share * counts[-1][1] if counts else 0.0
        if not wanted:
            return None
        low, below = 0.0, 0.0
        for bound, count in counts:
            if count >= wanted:
                break
            low, below = bound, count
        return low + (bound - low) * (wanted - below) / (count - below)

    def _grown(self, name: str, **labels: str) -> float:
        earlier = self.before.sum(name, **labels) if self.before else 0.0
        return max(0.0, self.now.sum(name, **labels) - earlier)


def between(before: Scrape | None, now: Scrape, seconds: float, wall_s: float) -> Interval:
    """Return the interval between two scrapes. A server that was started anew in between has nothing before.

    Args:
        before: the earlier scrape, if there was one.
        now: the later one.
        seconds: how long after the earlier one it was made.
        wall_s: the time of the later one, in seconds since the Unix epoch.
    """
    start = now.sum(catalog.START.name)
    if before is not None and seconds > 0 and before.sum(catalog.START.name) == start:
        return Interval(before, now, seconds)
    return Interval(None, now, max(1.0, wall_s - start))  # clocks of two machines may differ
