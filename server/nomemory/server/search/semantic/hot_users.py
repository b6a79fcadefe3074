"""Track recently queried users, whose backlog is indexed first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from cachetools import TTLCache

_MAX_USERS: Final = 256


class HotUserTracker:
    """Tracks the users with recent queries.

    Args:
        hot_s: the number of seconds after a query during which a user is hot.
        clock: returns the monotonic time in seconds.
    """

    def __init__(self, hot_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._hot = TTLCache[str, None](_MAX_USERS, hot_s, clock)

    def record_query(self, user_id: str) -> bool:
        """Record a query of a user. Return whether the query made the user hot."""
        is_new = user_id not in self._hot
        self._hot[user_id] = None
        return is_new

    def users(self) -> list[str]:
        """Return the hot users, most recent query first."""
        return list(self._hot)[::-1]
