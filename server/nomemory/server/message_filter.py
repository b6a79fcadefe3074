"""Message filters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from nomemory.server.message import Message, Role
from nomemory.server.metadata_hashes import Entry
from nomemory.text.time_range import TimeRange

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Filter:
    """The conditions that a message must meet.

    A condition that is None or empty matches all messages.

    Attributes:
        since_us: the minimum timestamp, inclusive.
        until_us: the maximum timestamp, exclusive.
        metadata: the required metadata entries, sorted by key, with unique keys.
        exclude_conversation_ids: the ids of the conversations whose messages are excluded; sorted, unique, none empty.
    """

    since_us: int | None = None
    until_us: int | None = None
    role: Role | None = None
    conversation_id: str = ""
    metadata: tuple[Entry, ...] = ()
    exclude_conversation_ids: tuple[str, ...] = ()

    def admits(self, message: Message) -> bool:
        """Return whether a message meets all conditions of the filter."""
        since, until = self.since_us, self.until_us
        return (
            (since is None or message.ts_us >= since)
            and (until is None or message.ts_us < until)
            and (self.role is None or message.role is self.role)
            and self.conversation_id in {"", message.conversation_id}
            and message.conversation_id not in self.exclude_conversation_ids
            and all(message.metadata.get(key) == value for key, value in self.metadata)
        )


EVERYTHING = Filter()


def narrow_to_period(message_filter: Filter, period: TimeRange) -> Filter:
    """Return the filter with its time range restricted to `period`."""
    since, until = _to_microseconds(period.since), _to_microseconds(period.until)
    return replace(
        message_filter,
        since_us=max((bound for bound in (message_filter.since_us, since) if bound is not None), default=None),
        until_us=min((bound for bound in (message_filter.until_us, until) if bound is not None), default=None),
    )


def _to_microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)
