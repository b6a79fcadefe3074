"""Search scopes, and the scopes that a recall has searched."""

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
    """A time range and a sender role to which a search is limited."""

    time_range: TimeRange = ANY_TIME
    role: Role = Role.ANY

    def exclude_future(self, now: datetime) -> SearchScope:
        """Return the scope without messages that were sent at or after `now`."""
        end = now if self.time_range.until is None else min(self.time_range.until, now)
        return SearchScope(TimeRange(self.time_range.since, end), self.role)

    def to_time_arguments(self, now: datetime) -> dict[str, JsonValue]:
        """Return the time range as tool arguments. An open time range ends at `now`."""
        since, until = self.time_range.since, (self.time_range.until or now).isoformat()
        return {"since": since.isoformat(), "until": until} if since else {"until": until}

    def to_filter_arguments(self, now: datetime) -> dict[str, JsonValue]:
        """Return the scope as the `filter` argument of a search tool."""
        return {"role": self.role.value, "time_range": self.to_time_arguments(now)}

    def contains(self, message: RetrievedMessage) -> bool:
        """Return whether a message has the role of the scope and was sent in its time range."""
        since, until = self.time_range.since, self.time_range.until
        has_role = self.role is Role.ANY or message.role is self.role
        return has_role and (since is None or message.ts >= since) and (until is None or message.ts < until)

    def union(self, other: SearchScope) -> SearchScope:
        """Return the smallest scope that contains this scope and another scope."""
        role = self.role if self.role is other.role else Role.ANY
        since = _select_outer_bound(min, self.time_range.since, other.time_range.since)
        return SearchScope(
            TimeRange(since, _select_outer_bound(max, self.time_range.until, other.time_range.until)), role
        )


class SearchCoverage:
    """Records which scopes a recall has searched.

    Args:
        question: the question, whose time range and role are the initial scope.
    """

    def __init__(self, question: Question) -> None:
        self._now = question.now
        self._initial: SearchScope | None = None
        self._widest: SearchScope | None = None
        if question.time_range is not None or question.role is not None:
            self._initial = SearchScope(question.time_range or ANY_TIME, question.role or Role.ANY).exclude_future(
                question.now
            )

    def add_scope(self, scope: SearchScope) -> None:
        """Record that a scope was searched."""
        bounded = scope.exclude_future(self._now)
        self._initial = self._initial or bounded
        self._widest = self._widest.union(bounded) if self._widest else bounded

    @property
    def widest_scope(self) -> SearchScope:
        """The smallest scope that contains all searched scopes."""
        return self._widest or SearchScope(TimeRange(self._now, self._now))

    @property
    def is_widened(self) -> bool:
        """Whether a search exceeded the initial scope."""
        return (
            self._widest is not None
            and self._initial is not None
            and self._initial.union(self._widest) != self._initial
        )


def _select_outer_bound(pick: _Pick, first: datetime | None, second: datetime | None) -> datetime | None:
    """Return the bound that `pick` (`min` or `max`) selects; None, meaning unbounded, if either bound is None."""
    return None if first is None or second is None else pick(first, second)
