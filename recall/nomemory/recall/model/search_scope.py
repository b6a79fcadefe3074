"""Search scopes: a time range and a role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.step import JsonValue
from nomemory.text.time_range import ANY_TIME, TimeRange

_Pick = Callable[[datetime, datetime], datetime]


@dataclass(frozen=True, slots=True)
class SearchScope:
    """A time range and a role."""

    window: TimeRange = ANY_TIME
    role: Role = Role.ANY

    def until(self, now: datetime) -> SearchScope:
        """Return the scope limited to messages before `now`."""
        end = now if self.window.until is None else min(self.window.until, now)
        return SearchScope(TimeRange(self.window.since, end), self.role)

    def time_arguments(self, now: datetime) -> dict[str, JsonValue]:
        """Return the time range in the format of the tools, with the end set to `now` at the latest."""
        since, until = self.window.since, (self.window.until or now).isoformat()
        return {"since": since.isoformat(), "until": until} if since else {"until": until}

    def as_filter(self, now: datetime) -> dict[str, JsonValue]:
        """Return the scope as a tool filter."""
        return {"role": self.role.value, "time_range": self.time_arguments(now)}

    def contains(self, message: RetrievedMessage) -> bool:
        """Return whether the scope contains a message."""
        since, until = self.window.since, self.window.until
        spoken = self.role is Role.ANY or message.role is self.role
        return spoken and (since is None or message.ts >= since) and (until is None or message.ts < until)

    def union(self, other: SearchScope) -> SearchScope:
        """Return the smallest scope that contains both scopes."""
        role = self.role if self.role is other.role else Role.ANY
        since = _outermost(min, self.window.since, other.window.since)
        return SearchScope(TimeRange(since, _outermost(max, self.window.until, other.window.until)), role)


class Coverage:
    """The searched scopes, and whether they exceed the initial scope.

    Args:
        question: sets the initial scope and the latest time.
    """

    def __init__(self, question: Question) -> None:
        self._now = question.now
        self._start: SearchScope | None = None
        self._widest: SearchScope | None = None
        if question.time_range is not None or question.role is not None:
            self._start = SearchScope(question.time_range or ANY_TIME, question.role or Role.ANY).until(question.now)

    def add(self, scope: SearchScope) -> None:
        """Record a search."""
        bounded = scope.until(self._now)
        self._start = self._start or bounded
        self._widest = self._widest.union(bounded) if self._widest else bounded

    @property
    def widest(self) -> SearchScope:
        """Return the smallest scope that contains all searches; an empty scope without a search."""
        return self._widest or SearchScope(TimeRange(self._now, self._now))

    @property
    def widened(self) -> bool:
        """Return whether a search exceeded the initial scope."""
        return self._widest is not None and self._start is not None and self._start.union(self._widest) != self._start


def _outermost(pick: _Pick, first: datetime | None, second: datetime | None) -> datetime | None:
    """Return the bound that `pick` selects; None (unbounded) if one of the bounds is None."""
    return None if first is None or second is None else pick(first, second)
