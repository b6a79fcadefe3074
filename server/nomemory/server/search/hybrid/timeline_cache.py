"""Cache timelines: a recall asks about one user several times in a row, and a chat asks after each turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from cachetools import LRUCache

from nomemory.server.search.hybrid.candidate_messages import Timeline

_OVERHEAD: Final = 1_000
"""Bytes of an entry that has no timeline, about."""


class Key(NamedTuple):
    """Cache key: the user, the log's sequence of that user, and the time before which everything was said.

    `messages` is how many the user has: with time messages expire, without a change to the log.
    """

    user_id: str
    sequence: int
    messages: int
    until_us: int | None


class KeptTimelines:
    """Caches the latest timelines, one of each user.

    A change to a user's messages, a deletion too, has a sequence of its own, and what expires goes in one order: a key
    never comes to mean something else.

    Args:
        most_bytes: about how much memory they may take together; the one that is looked at may take more.
    """

    def __init__(self, most_bytes: int) -> None:
        self._kept: LRUCache[str, tuple[Key, Timeline | None]] = LRUCache(most_bytes, getsizeof=_weight)

    @property
    def weight(self) -> int:
        """About how many bytes of memory they take."""
        return int(self._kept.currsize)

    async def get(
        self, key: Key, make: Callable[[Key, Timeline | None], Awaitable[Timeline | None]]
    ) -> Timeline | None:
        """Return a timeline; None if `make` returns None.

        Args:
            key: which.
            make: makes it, given the key and what is known of that user from before, if anything.
        """
        kept, known = self._kept.get(key.user_id) or (None, None)
        if kept == key:
            return known
        made = await make(key, known)
        with suppress(ValueError):  # it is too large to be kept
            self._kept[key.user_id] = key, made
        return made


def _weight(kept: tuple[Key, Timeline | None]) -> int:
    _, timeline = kept
    return _OVERHEAD + (timeline.weight if timeline else 0)
