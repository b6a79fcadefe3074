"""Timelines that are kept: a recall asks one user several things in a row, and a chat asks again after each turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from nomemory.server.hybrid.timeline import Timeline

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
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, tuple[Key, Timeline | None]] = OrderedDict()
        self._weight = 0

    @property
    def weight(self) -> int:
        """About how much memory they take."""
        return self._weight

    def get(self, key: Key, make: Callable[[Timeline | None], Timeline | None]) -> Timeline | None:
        """Give a timeline, or that there is none to look at.

        Args:
            key: which.
            make: makes it, given what is known of that user from before, if anything.
        """
        kept, known = self._kept.get(key.user_id, (None, None))
        if kept == key:
            self._kept.move_to_end(key.user_id)
            return known
        made = make(known)
        if kept is not None:
            self._drop(key.user_id)
        self._kept[key.user_id] = key, made
        self._weight += _weight(made)
        while self._weight > self._most_bytes:
            self._drop(next(iter(self._kept)))
        return made

    def _drop(self, user_id: str) -> None:
        _, dropped = self._kept.pop(user_id)
        self._weight -= _weight(dropped)


def _weight(timeline: Timeline | None) -> int:
    return _OVERHEAD + (timeline.weight if timeline else 0)
