"""What one process counts. Everything here belongs to the event loop: to count is to add to a number.

How long changes have waited that an index does not have.

The processes that a server has started: what each is, how often it was started, what CPU time it has used.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from nomemory.server.metrics.catalog import Family
from nomemory.server.metrics.samples import Distribution, Labels, Samples

_MARKS_MAX = 4096
"""Of scrapes every 15 seconds, those of 17 hours: how long a lag can be told."""


class IndexLag:
    """Remembers when the log was how far, scrape by scrape.

    Args:
        now: the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._marks: deque[tuple[int, float]] = deque(maxlen=_MARKS_MAX)

    def note(self, sequence: int) -> None:
        """Note how far the log is now."""
        if not self._marks or self._marks[-1][0] < sequence:
            self._marks.append((sequence, self._now()))

    def behind_s(self, applied: int) -> float:
        """Return for how long an index has lacked the oldest change that it lacks; 0 if it has all."""
        at = bisect_right(self._marks, applied, key=lambda mark: mark[0])
        return self._now() - self._marks[at][1] if at < len(self._marks) else 0.0


def role_of(process: str) -> str:
    """Return what a process is without its number: `reader-2` is a `reader`."""
    return process.rstrip("0123456789").removesuffix("-")


@dataclass(slots=True)
class Entry:
    """A process by its name, over all the times that it was started.

    Attributes:
        process_id: of the one that runs; None while none does.
        starts: how often it was started.
    """

    process_id: int | None = None
    starts: int = 0
    _cpu_s: float = 0.0
    _before_s: float = 0.0

    def began(self, process_id: int) -> None:
        """Note that it was started. What its predecessor has used stays counted."""
        self.process_id = process_id
        self.starts += 1
        self._before_s += self._cpu_s
        self._cpu_s = 0.0

    def used(self, process_id: int, cpu_s: float) -> None:
        """Note what the running process has used."""
        if process_id == self.process_id:
            self._cpu_s = max(self._cpu_s, cpu_s)

    @property
    def cpu_s(self) -> float:
        """CPU time of all of them, as far as anybody has looked."""
        return self._before_s + self._cpu_s


class Roster:
    """Knows the processes by their names. Belongs to the event loop."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def began(self, process: str, process_id: int) -> None:
        """Note that a process was started."""
        self.entries.setdefault(process, Entry()).began(process_id)

    def ended(self, process: str, process_id: int) -> None:
        """Note that it is gone. Its successor may be there already."""
        entry = self.entries[process]
        if entry.process_id == process_id:
            entry.process_id = None


class Meters:
    """All that a process counts.

    Args:
        process: what it is called: `writer`, `reader-1`.

    Attributes:
        lag: when the log was how far.
        roster: the processes that this one has started.
    """

    def __init__(self, process: str = "writer") -> None:
        self.process = process
        self.lag = IndexLag()
        self.roster = Roster()
        self._counts: dict[Family, Counter[Labels]] = {}
        self._spread: dict[tuple[Family, Labels], Distribution] = {}
        self._tellers: list[Callable[[Samples], None]] = []

    def count(self, family: Family, *labels: str, by: int = 1) -> None:
        """Add to a counter."""
        self._counts.setdefault(family, Counter())[labels] += by

    def observe(self, family: Family, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        spread = self._spread.get((family, labels))
        if spread is None:
            spread = self._spread[family, labels] = Distribution(family.bounds)
        spread.note(value)

    def also(self, tell: Callable[[Samples], None]) -> None:
        """Have something else add its figures whenever they are asked for."""
        self._tellers.append(tell)

    def samples(self) -> Samples:
        """Return the figures of now."""
        samples = Samples()
        for family, counts in self._counts.items():
            for labels, count in counts.items():
                samples.put(family, count, *labels)
        for (family, labels), distribution in self._spread.items():
            samples.put(family, distribution.copy(), *labels)
        for tell in self._tellers:
            tell(samples)
        return samples
