"""The names of those who speak in a user's log, from a sample of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from cachetools import LRUCache

from nomemory.server import wire
from nomemory.server.message import LoggedMessage, Role
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import Position

SPEAKERS_MAX: Final = 40
"""Most speakers' names that a text is compared with: of those who speak most."""
_LATEST: Final = 40
"""Latest messages that are read to find the speakers."""
_DAYS_BACK: Final = (1, 7, 30, 90, 365, 1095)
"""Days before the latest messages at which the log is sampled for speakers who are silent now."""
_SAMPLED: Final = 12
_DAY_US: Final = 86_400_000_000
_NO_BOUND: Final = 2**62
_USERS_KEPT: Final = 4096


class Speakers:
    """Finds the speakers of a log: some who spoke lately, and some who spoke before.

    Args:
        log: what is sampled. What was found is kept until the user's log changes.
    """

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._kept: LRUCache[str, tuple[int, tuple[str, ...]]] = LRUCache(_USERS_KEPT)

    async def of(self, user_id: str, until_us: int | None) -> tuple[str, ...]:
        """Return the names of those who spoke before a time, at most `SPEAKERS_MAX`, in alphabetical order."""
        sequence = await self._log.user_sequence(user_id)
        latest = await self._page(user_id, None, 1)
        if until_us is not None and latest and latest[0].ts_us >= until_us:
            return _foremost(await self._sampled(user_id, Position(until_us, "")))
        known, names = self._kept.get(user_id, (-1, ()))
        if known != sequence:
            names = _foremost(await self._sampled(user_id, None))
            self._kept[user_id] = sequence, names
        return names

    async def _sampled(self, user_id: str, before: Position | None) -> list[LoggedMessage]:
        sampled = await self._page(user_id, before, _LATEST)
        oldest = sampled[-1:]
        for days in _DAYS_BACK:
            if not oldest:
                break
            page = await self._page(user_id, Position(oldest[0].ts_us - days * _DAY_US, ""), _SAMPLED)
            sampled += page
            oldest = page[-1:]
        return sampled

    async def _page(self, user_id: str, before: Position | None, limit: int) -> list[LoggedMessage]:
        return list(await self._log.page(user_id, EVERYTHING, before=before, pinned=_NO_BOUND, limit=limit))


def _foremost(messages: Iterable[LoggedMessage]) -> tuple[str, ...]:
    decoded = (wire.decode(message.wire) for message in messages)
    return foremost(
        Counter(item.name for item in decoded if item.name and item.role is not Role.TOOL)
    )  # a tool is nobody


def foremost(spoke: Counter[str]) -> tuple[str, ...]:
    """Return the names of those who speak most, in alphabetical order."""
    most = sorted(spoke.items(), key=lambda item: (-item[1], item[0]))[:SPEAKERS_MAX]
    return tuple(sorted(name for name, _ in most))
