"""The users who are being queried. Their backlog goes first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_USERS_MAX = 256


class HotUsers:
    """The users of the latest queries.

    Args:
        hot_s: how long after a query a user counts.
        clock: gives seconds.
    """

    def __init__(self, hot_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._hot_s = hot_s
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()

    def note(self, user_id: str) -> bool:
        """Remember a query; tell whether the user was not hot before."""
        now = self._clock()
        before = self._until.pop(user_id, now)
        self._until[user_id] = now + self._hot_s
        if len(self._until) > _USERS_MAX:
            self._until.popitem(last=False)
        return before <= now

    def users(self) -> list[str]:
        """Return the hot users, the latest query first."""
        now = self._clock()
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        return list(reversed(self._until))
