"""Cache the analyzed messages of users, because a recall sends several consecutive queries for one user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from cachetools import LRUCache

from nomemory.server.search.hybrid.candidate_messages import Timeline

_ENTRY_BYTES: Final = 1_000
"""Estimated memory of a cache entry without its timeline."""


class TimelineKey(NamedTuple):
    """Cache key: the user, the sequence number of the user's latest change, the message count, and the range end.

    `message_count` is part of the key because messages expire without a change of the message log.
    """

    user_id: str
    sequence: int
    message_count: int
    until_us: int | None


class TimelineCache:
    """An LRU cache of the analyzed messages of each user.

    A key always identifies the same messages, because every change, including a deletion, has its own sequence number,
    and messages expire in a fixed order.

    Args:
        max_bytes: the maximum estimated memory. Messages that exceed the maximum are not cached.
    """

    def __init__(self, max_bytes: int) -> None:
        self._entries: LRUCache[str, tuple[TimelineKey, Timeline | None]] = LRUCache(
            max_bytes, getsizeof=_estimate_entry_bytes
        )

    @property
    def memory_bytes(self) -> int:
        """The estimated memory of all cached messages, in bytes."""
        return int(self._entries.currsize)

    async def get(
        self, key: TimelineKey, load: Callable[[TimelineKey, Timeline | None], Awaitable[Timeline | None]]
    ) -> Timeline | None:
        """Return the cached messages of a key, or load and cache them. The result is None if `load` returns None.

        On a cache miss, `load` is called with the key and the user's previously cached messages, if any.
        """
        cached_key, cached = self._entries.get(key.user_id) or (None, None)
        if cached_key == key:
            return cached
        loaded = await load(key, cached)
        with suppress(ValueError):  # the timeline exceeds the limit of the cache
            self._entries[key.user_id] = key, loaded
        return loaded


def _estimate_entry_bytes(entry: tuple[TimelineKey, Timeline | None]) -> int:
    _, timeline = entry
    return _ENTRY_BYTES + (timeline.memory_bytes if timeline else 0)
