"""Read the names of the authors of a user's messages from a sample of the messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from cachetools import LRUCache

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import MessagePosition
from nomemory.v1 import message_pb2

SPEAKERS_MAX: Final = 40
"""Maximum number of names, those with the most messages."""
_NEWEST: Final = 40
"""Number of the newest messages in the sample."""
_DAYS_BACK: Final = (1, 7, 30, 90, 365, 1095)
"""Days to go back between pages of the sample, to include authors who have not written recently."""
_SAMPLE_PAGE: Final = 12
_DAY_US: Final = 86_400_000_000
_NOT_PINNED: Final = 2**62
_CACHED_USERS: Final = 4096


class SpeakerNameSampler:
    """Samples the names of the authors of a user's messages. Results are cached until the user's messages change."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._cache: LRUCache[str, tuple[int, tuple[str, ...]]] = LRUCache(_CACHED_USERS)

    async def read_names(self, user_id: str, until_us: int | None) -> tuple[str, ...]:
        """Return the names of at most `SPEAKERS_MAX` authors of messages before a time, sorted."""
        sequence = await self._log.read_user_sequence(user_id)
        newest = await self._read_page(user_id, None, 1)
        if until_us is not None and newest and newest[0].ts_us >= until_us:
            return _list_sender_names(await self._sample_messages(user_id, MessagePosition(until_us, "")))
        cached_sequence, names = self._cache.get(user_id, (-1, ()))
        if cached_sequence != sequence:
            names = _list_sender_names(await self._sample_messages(user_id, None))
            self._cache[user_id] = sequence, names
        return names

    async def _sample_messages(self, user_id: str, before: MessagePosition | None) -> list[LoggedMessage]:
        sample = await self._read_page(user_id, before, _NEWEST)
        oldest = sample[-1:]
        for days in _DAYS_BACK:
            if not oldest:
                break
            page = await self._read_page(user_id, MessagePosition(oldest[0].ts_us - days * _DAY_US, ""), _SAMPLE_PAGE)
            sample += page
            oldest = page[-1:]
        return sample

    async def _read_page(self, user_id: str, before: MessagePosition | None, limit: int) -> list[LoggedMessage]:
        return list(await self._log.read_page(user_id, EVERYTHING, before=before, pinned=_NOT_PINNED, limit=limit))


def _list_sender_names(messages: Iterable[LoggedMessage]) -> tuple[str, ...]:
    decoded = (message_pb2.ChatMessage.FromString(message.wire) for message in messages)
    return select_main_speakers(
        Counter(item.name for item in decoded if item.name and item.role != message_pb2.ROLE_TOOL)
    )


def select_main_speakers(messages_by_name: Counter[str]) -> tuple[str, ...]:
    """Return the names with the most messages, at most `SPEAKERS_MAX`, sorted."""
    ranked = sorted(messages_by_name.items(), key=lambda item: (-item[1], item[0]))
    return tuple(sorted(name for name, _ in ranked[:SPEAKERS_MAX]))
