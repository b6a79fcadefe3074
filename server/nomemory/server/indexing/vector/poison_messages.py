"""Detect poison messages, which make the embedder fail and would block other messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nomemory.server.indexing.vector.backlog import Pending

_MAX_STRIKES: Final = 10
_MAX_TRACKED: Final = 1024


@dataclass(slots=True)
class _FailureRecord:
    failures_alone: int = 0
    strikes: int = 0
    last_strike_at: int = -1


class PoisonMessageTracker:
    """Counts how often a message failed alone while other messages succeeded.

    Messages of a failed batch become suspects. Suspects are retried one at a time after all other messages, those with
    the fewest failures first. A suspect that fails alone gets a strike, but at most one between two successes of other
    messages, so it gets none during an outage.
    """

    def __init__(self) -> None:
        self._records: OrderedDict[Pending, _FailureRecord] = OrderedDict()
        self._successes = 0

    def __contains__(self, item: Pending) -> bool:
        return item in self._records

    def failure_count(self, item: Pending) -> int:
        """Return the number of times that a message failed alone."""
        return self._records[item].failures_alone if item in self._records else 0

    def record_failure(self, items: Sequence[Pending]) -> Pending | None:
        """Record that a batch failed.

        Returns:
            The message to make a dead letter: the only one of the batch, if it has too many strikes.
        """
        for item in items:
            self._records.setdefault(item, _FailureRecord())
        while len(self._records) > _MAX_TRACKED:
            self._records.popitem(last=False)
        return items[0] if len(items) == 1 and self._has_failed_too_often(items[0]) else None

    def record_success(self, items: Sequence[Pending]) -> None:
        """Record that a batch succeeded."""
        self._successes += 1
        for item in items:
            self._records.pop(item, None)

    def _has_failed_too_often(self, item: Pending) -> bool:
        record = self._records[item]
        record.failures_alone += 1
        if record.last_strike_at != self._successes:
            record.strikes, record.last_strike_at = record.strikes + 1, self._successes
        if record.strikes < _MAX_STRIKES:
            return False
        del self._records[item]
        return True
