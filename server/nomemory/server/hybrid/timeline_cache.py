"""Timelines that are kept: a recall asks one user several things in a row, and a chat asks again after each turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from nomemory.server.hybrid.timeline import Timeline
from nomemory.server.lru_cache import Kept

_KEPT_BYTES: Final = 32_000_000
"""About how much memory the kept timelines take; the one that is looked at may take more."""

_OVERHEAD: Final = 1_000
"""Bytes of an entry that has no timeline, about."""


class Key(NamedTuple):
    """Whose timeline, as of which change to it, and before which time."""

    user_id: str
    sequence: int
    until_us: int | None


class KeptTimelines:
    """Keeps the timelines that were looked at last, one of each user.

    A change to a user's messages, a deletion too, has a sequence of its own: a key never comes to mean something else.

    Args:
        most_bytes: about how much memory they may take together.
    """

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._kept: Kept[str, tuple[Key, Timeline | None]] = Kept(most_bytes, _weight)

    @property
    def weight(self) -> int:
        """About how much memory they take."""
        return self._kept.weight

    def get(self, key: Key, make: Callable[[Timeline | None], Timeline | None]) -> Timeline | None:
        """Return a timeline, or that there is none to look at.

        Args:
            key: which.
            make: makes it, given what is known of that user from before, if anything.
        """
        kept, known = self._kept.get(key.user_id) or (None, None)
        if kept == key:
            return known
        made = make(known)
        self._kept.put(key.user_id, (key, made))
        return made


def _weight(kept: tuple[Key, Timeline | None]) -> int:
    _, timeline = kept
    return _OVERHEAD + (timeline.weight if timeline else 0)
