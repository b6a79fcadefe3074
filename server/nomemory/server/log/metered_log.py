"""A log whose changes are counted."""

from __future__ import annotations

from collections.abc import Sequence

from nomemory.server.log.protocol import Deleted, Erased, LogWriter, OnConflict, Written
from nomemory.server.message import Filter, Message
from nomemory.server.metrics.meters import ChangeMeter


class MeteredLog:
    """A `LogWriter` around another.

    Args:
        within: the log.
        meter: counts what it has committed.
    """

    def __init__(self, within: LogWriter, meter: ChangeMeter) -> None:
        self._within = within
        self._meter = meter

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        """Store a batch, all or nothing; returns when it is durable."""
        written = await self._within.write(messages, on_conflict=on_conflict, request_id=request_id)
        for outcome in written.outcomes:
            self._meter.written(outcome.value)
        return written

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user; returns when it is durable."""
        deleted = await self._within.delete(user_id, message_ids)
        self._meter.deleted("ids", deleted.deleted)
        return deleted

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete whatever a filter admits, all or nothing; returns when it is durable."""
        deleted = await self._within.delete_matching(user_id, narrowed)
        self._meter.deleted("filter", deleted.deleted)
        return deleted

    async def erase(self, user_id: str) -> Erased:
        """Delete everything of one user; returns when it is durable."""
        erased = await self._within.erase(user_id)
        self._meter.deleted("user", erased.deleted)
        return erased
