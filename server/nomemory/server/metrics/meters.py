"""What one process counts. Everything here belongs to the event loop: to count is to add to a number.

How long changes have waited that an index does not have.

The processes that a server has started: what each is, how often it was started, what CPU time it has used.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from nomemory.server.metrics import catalog
from nomemory.server.metrics.catalog import Family
from nomemory.server.metrics.samples import Distribution, Labels, Samples

_MARKS_MAX = 4096


class IndexLag:
    """Remembers when the log was how far.

    Args:
        now: the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._marks: list[tuple[int, float]] = []

    def note(self, sequence: int) -> None:
        """Note how far the log is now. Of very many, every second one of the older half is forgotten."""
        if self._marks and self._marks[-1][0] >= sequence:
            return
        self._marks.append((sequence, self._now()))
        if len(self._marks) > _MARKS_MAX:
            half = _MARKS_MAX // 2
            self._marks[:half] = self._marks[0:half:2]

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


GRPC: Final = "grpc"
"""The way in of a call that does not say another one."""


class Queue(Protocol):
    """A queue whose length can be asked for."""

    @property
    def waiting(self) -> int:
        """How many wait."""


class CallMeter:
    """Counts calls as they end."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str, str], Distribution] = {}
        self._errors: Counter[Labels] = Counter()
        self._refused: Counter[str] = Counter()

    def ended(self, method: str, via: str, code: str, seconds: float) -> None:
        """Count a call by its method and gRPC code."""
        key = (method, via, code)
        distribution = self._ended.get(key)
        if distribution is None:
            distribution = self._ended[key] = Distribution(catalog.CALLS.bounds)
        distribution.note(seconds)

    def failed(self, method: str, via: str, reason: str) -> None:
        """Count an error by the contract's reason."""
        self._errors[method, via, _plain(reason)] += 1

    def refused(self, reason: str) -> None:
        """Count a request that was refused before it was a call."""
        self._refused[_plain(reason)] += 1

    def tell(self, samples: Samples) -> None:
        """Add what was counted."""
        for labels, distribution in self._ended.items():
            samples.spread(catalog.CALLS, distribution, *labels)
        _tell(samples, catalog.ERRORS, self._errors)
        for reason, count in self._refused.items():
            samples.put(catalog.HTTP_REFUSED, count, reason)


class RecallMeter:
    """Counts recalls that came to an answer."""

    def __init__(self) -> None:
        self._verdicts: Counter[Labels] = Counter()
        self._rounds = Distribution(catalog.RECALL_ROUNDS.bounds)
        self._tool_calls = self._dropped = 0

    def note(self, verdict: str, stop: str, *, rounds: int, tool_calls: int, dropped: int) -> None:
        """Count a recall, and what it took."""
        self._verdicts[verdict, stop] += 1
        self._rounds.note(rounds)
        self._tool_calls += tool_calls
        self._dropped += dropped

    def tell(self, samples: Samples) -> None:
        """Add what was counted."""
        _tell(samples, catalog.RECALLS, self._verdicts)
        samples.spread(catalog.RECALL_ROUNDS, self._rounds)
        samples.put(catalog.RECALL_SEARCHES, self._tool_calls)
        samples.put(catalog.RECALL_DROPPED, self._dropped)


class EmbedderMeter:
    """Counts what the model and its cache do."""

    def __init__(self) -> None:
        self._durations: dict[str, Distribution] = {}
        self._texts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._cache: Counter[Labels] = Counter()
        self._queues: list[Queue] = []

    def calling(self, purpose: str, texts: int) -> AbstractContextManager[None]:
        """Count a call of the model. One that is given up is not counted."""
        return _EmbedderCall(self, purpose, texts)

    def called(self, purpose: str, texts: int, seconds: float) -> None:
        """Count a call that gave vectors."""
        self._texts[purpose] += texts
        self._note_duration(purpose, seconds)

    def failed(self, purpose: str, seconds: float) -> None:
        """Count a call that gave none."""
        self._errors[purpose] += 1
        self._note_duration(purpose, seconds)

    def looked_up(self, *, hit: bool) -> None:
        """Count a look-up of a query's vector."""
        self._cache[("hit" if hit else "miss",)] += 1

    def follow(self, queue: Queue) -> None:
        """Tell the length of a queue from now on."""
        self._queues.append(queue)

    @property
    def waiting(self) -> int:
        """How many wait for the model."""
        return sum(queue.waiting for queue in self._queues)

    def tell(self, samples: Samples) -> None:
        """Add what was counted."""
        for purpose, distribution in self._durations.items():
            samples.spread(catalog.EMBEDDER_CALLS, distribution, purpose)
            samples.put(catalog.EMBEDDER_TEXTS, self._texts[purpose], purpose)
            samples.put(catalog.EMBEDDER_ERRORS, self._errors[purpose], purpose)
        _tell(samples, catalog.EMBEDDER_CACHE, self._cache)

    def _note_duration(self, purpose: str, seconds: float) -> None:
        distribution = self._durations.setdefault(purpose, Distribution(catalog.EMBEDDER_CALLS.bounds))
        distribution.note(seconds)


class _EmbedderCall(AbstractContextManager[None]):
    """A call of the model that is under way."""

    def __init__(self, meter: EmbedderMeter, purpose: str, texts: int) -> None:
        self._meter = meter
        self._purpose = purpose
        self._texts = texts
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Count it by how it ended. What is no `Exception` gave it up."""
        seconds = time.perf_counter() - self._began
        if kind is None:
            self._meter.called(self._purpose, self._texts, seconds)
        elif issubclass(kind, Exception):
            self._meter.failed(self._purpose, seconds)


class ChangeMeter:
    """Counts what the log has committed."""

    def __init__(self) -> None:
        self._written: Counter[str] = Counter()
        self._deleted: Counter[str] = Counter()

    def written(self, outcome: str) -> None:
        """Count a message of a write by what became of it."""
        self._written[outcome] += 1

    def deleted(self, by: str, messages: int) -> None:
        """Count messages that were deleted, by what named them."""
        self._deleted[by] += messages

    def tell(self, samples: Samples) -> None:
        """Add what was counted."""
        for outcome, count in self._written.items():
            samples.put(catalog.WRITTEN, count, outcome)
        for by, count in self._deleted.items():
            samples.put(catalog.DELETED, count, by)


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
        self.calls = CallMeter()
        self.recalls = RecallMeter()
        self.embedder = EmbedderMeter()
        self.changes = ChangeMeter()
        self.lag = IndexLag()
        self.roster = Roster()
        self._tellers: list[Callable[[Samples], None]] = []

    def also(self, tell: Callable[[Samples], None]) -> None:
        """Have something else add its figures whenever they are asked for."""
        self._tellers.append(tell)

    def samples(self) -> Samples:
        """Return the figures of now."""
        samples = Samples()
        for meter in (self.calls, self.recalls, self.embedder, self.changes):
            meter.tell(samples)
        samples.put(catalog.QUEUE, self.embedder.waiting, self.process, "embedder")
        for tell in self._tellers:
            tell(samples)
        return samples


def _plain(reason: str) -> str:
    """Return a reason of the contract as the documentation writes it."""
    return reason.removeprefix("ERROR_REASON_")


def _tell(samples: Samples, family: Family, counts: Mapping[Labels, int]) -> None:
    for labels, count in counts.items():
        samples.put(family, count, *labels)
