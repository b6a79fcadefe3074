"""Quarantine for messages that may break the embedder, so that they do not hold up the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.vector.backlog import Pending

_STRIKES_MAX = 10
_SUSPECTS_MAX = 1024


@dataclass(slots=True)
class _Record:
    failed_alone: int = 0
    strikes: int = 0
    struck_at: int = -1


class Suspects:
    """Counts how often a message failed alone while others went through.

    Messages that failed together are to be tried alone from then on, after all the others, and those that failed alone
    the least come first. An outage makes suspects, but no strikes: nothing else goes through.
    """

    def __init__(self) -> None:
        self._records: OrderedDict[Pending, _Record] = OrderedDict()
        self._passed = 0

    def __contains__(self, item: Pending) -> bool:
        return item in self._records

    def failures(self, item: Pending) -> int:
        """Return how often a message failed alone."""
        return self._records[item].failed_alone if item in self._records else 0

    def blame(self, items: Sequence[Pending]) -> Pending | None:
        """Record that these failed together; return the one that must be set aside, if it failed alone too often."""
        for item in items:
            self._records.setdefault(item, _Record())
        while len(self._records) > _SUSPECTS_MAX:
            self._records.popitem(last=False)
        return items[0] if len(items) == 1 and self._is_out(items[0]) else None

    def clear(self, items: Sequence[Pending]) -> None:
        """Record that these succeeded."""
        self._passed += 1
        for item in items:
            self._records.pop(item, None)

    def _is_out(self, item: Pending) -> bool:
        record = self._records[item]
        record.failed_alone += 1
        if record.struck_at != self._passed:
            record.strikes, record.struck_at = record.strikes + 1, self._passed
        if record.strikes < _STRIKES_MAX:
            return False
        del self._records[item]
        return True
