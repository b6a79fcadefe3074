"""Detect poison messages, which make the embedder fail and would block other messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nomemory.server.indexing.vector.backlog import PendingMessage

_MAX_STRIKES: Final = 10
_MAX_TRACKED: Final = 1024


@dataclass(slots=True)
class _FailureRecord:
    failures_alone: int = 0
    strikes: int = 0
    last_strike_at: int = -1


class PoisonMessageTracker:
    """Counts how often a message fails alone while other messages succeed.

    Messages of a failed batch are suspected poison messages. Suspected messages are retried one at a time after all
    other messages, those with the fewest failures first. A suspected message that fails alone gets a strike, but at
    most one between two successes of other messages. An outage of the embedder therefore causes at most one strike.
    """

    def __init__(self) -> None:
        self._records: OrderedDict[PendingMessage, _FailureRecord] = OrderedDict()
        self._successes = 0

    def __contains__(self, item: PendingMessage) -> bool:
        return item in self._records

    def count_failures(self, item: PendingMessage) -> int:
        """Return how often the embedder has failed on this message alone; 0 unless the message is suspected."""
        return self._records[item].failures_alone if item in self._records else 0

    def record_failure(self, items: Sequence[PendingMessage]) -> PendingMessage | None:
        """Record that the embedder failed on a batch of messages.

        Returns:
            The message to record as a dead letter, if the batch has a single message with too many strikes; otherwise
            None.
        """
        for item in items:
            self._records.setdefault(item, _FailureRecord())
        while len(self._records) > _MAX_TRACKED:
            self._records.popitem(last=False)
        return items[0] if len(items) == 1 and self._add_strike(items[0]) else None

    def record_success(self, items: Sequence[PendingMessage]) -> None:
        """Record that the embedder succeeded on a batch of messages."""
        self._successes += 1
        for item in items:
            self._records.pop(item, None)

    def _add_strike(self, item: PendingMessage) -> bool:
        record = self._records[item]
        record.failures_alone += 1
        if record.last_strike_at != self._successes:
            record.strikes, record.last_strike_at = record.strikes + 1, self._successes
        if record.strikes < _MAX_STRIKES:
            return False
        del self._records[item]
        return True
