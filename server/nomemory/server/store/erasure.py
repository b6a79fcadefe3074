"""Takes out of every file what was removed from the log: deleted, replaced or expired.

The log's record of removals is the list of what is to be done. It is forgotten when every index has wiped out what it
names, so that a process that dies in the middle of it begins again. An index that cannot do it now does not keep the
other files from being wiped; the record stays, and it is tried again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.collection_cleanup import CollectionCleanup
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpaces
from nomemory.server.runtime.active_faults import ERASURE, ERASURE_BLOCKED, StandingFaults
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.lexical.protocol import LexicalProgress
from nomemory.server.search.semantic.protocol import NoRoomError
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.protocol import ErasableLog
from nomemory.server.store.results import Removals

_REMOVALS_AT_ONCE: Final = 100_000
"""Number of removed messages at which the erasure begins at once."""


_LOOKS = 40
"""How often is looked, within the time in which all has to be done, whether there is something to do."""

_LONGEST_POLL_S, _SHORTEST_POLL_S = 5.0, 0.05

_log = get_logger("erasure")


@dataclass(frozen=True, slots=True)
class Indexes:
    """What follows the log.

    Attributes:
        cleanup: deletes collections of vectors that are no longer used.
    """

    lexical: LexicalProgress
    spaces: IndexedSpaces
    cleanup: CollectionCleanup

    async def behind(self, until: FeedPosition) -> str:
        """Name an index that does not have everything up to a position; nothing if all have."""
        if not FeedPosition.at(self.lexical.applied).has(until):
            return "lexical"
        for one in self.spaces.all():
            if not (await one.indexer.applied()).has(until):
                return one.space.name
        return ""

    async def wipe_removed(self) -> None:
        """Take what was removed and applied by now out of every file but those of the vectors in use."""
        await self.lexical.wipe_removed()
        for one in self.spaces.all():
            await one.indexer.wipe_backlog()
        await self.cleanup.delete()

    async def wipe_vectors(self) -> str:
        """Take it out of the vectors in use; return what keeps it from that, in words, or nothing."""
        try:
            for one in self.spaces.all():
                await one.index.erase_deleted()
        except NoRoomError as refused:
            return str(refused)
        except Fault as fault:
            return fault.message
        return ""


class Erasure:
    """Begins when removals have waited for half of the time that they may take, or when there are many of them.

    How long they have waited is not known after a start: then it begins at once.

    Args:
        log: what was removed.
        indexes: what follows it.
        settings: when, and in which pieces.
        faults: where it is noted that it has to wait.
    """

    def __init__(
        self, log: ErasableLog, indexes: Indexes, settings: Settings, faults: StandingFaults | None = None
    ) -> None:
        self._faults = faults or StandingFaults()
        self._others_due_at = 0.0
        self._log = log
        self._indexes = indexes
        self._settings = settings
        self._poll_s = min(_LONGEST_POLL_S, max(_SHORTEST_POLL_S, settings.erasure.within_s / _LOOKS))
        self._retry_s = min(settings.erasure.max_retry_delay_s, settings.erasure.within_s / 4)
        self._waiting_since: float | None = -settings.erasure.within_s

    async def run(self) -> None:
        """Erase what there is, again and again, until it is cancelled. Whatever it raises, it can be run again."""
        while True:
            removals = await self._log.removals(_REMOVALS_AT_ONCE)
            if removals is None:
                self._waiting_since = None
            elif self._is_due(removals):
                if not await self._erase(removals.until):
                    await asyncio.sleep(self._retry_s)
                continue
            await asyncio.sleep(self._poll_s)

    def _is_due(self, removals: Removals) -> bool:
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        return removals.are_many or now - self._waiting_since >= self._settings.erasure.within_s / 2

    async def _erase(self, until: FeedPosition) -> bool:
        """Erase what was removed up to a position; False if it has to be tried again."""
        began_at = time.monotonic()
        if behind := await self._behind_for_long(until):
            await self._postpone(f"the index {behind} is behind", are_vectors_due=True)
            return False
        later = time.monotonic()  # what comes from here on is for the next time
        if obstacle := await self._indexes.wipe_vectors():
            await self._postpone(f"the vectors cannot be erased now: {obstacle}")
            return False
        self._faults.clear(ERASURE)
        await self._indexes.wipe_removed()
        await _all_pieces(partial(self._log.forget, until, self._settings.erasure.batch_size))
        await self._clean_log()
        self._waiting_since = later
        _log.info("erased what was removed", until=until.latest, took_s=round(time.monotonic() - began_at, 3))
        return True

    async def _postpone(self, obstacle: str, *, are_vectors_due: bool = False) -> None:
        """Say what is in the way, and erase the rest: at once, and then as often as is due."""
        self._faults.stand(ERASURE, ERASURE_BLOCKED, obstacle)
        now = time.monotonic()
        if now >= self._others_due_at:
            if are_vectors_due:
                await self._indexes.wipe_vectors()
            await self._indexes.wipe_removed()
            await self._clean_log()
            self._others_due_at = now + self._settings.erasure.within_s / 2

    async def _clean_log(self) -> None:
        await _all_pieces(partial(self._log.give_back, self._settings.erasure.max_pages))
        await self._wipe_log()

    async def _behind_for_long(self, until: FeedPosition) -> str:
        """Wait until all indexes have what was removed, but not too long; return which one is behind even then."""
        latest = time.monotonic() + self._settings.erasure.within_s / 4
        while (behind := await self._indexes.behind(until)) and time.monotonic() < latest:  # noqa: ASYNC110 - others tell
            await asyncio.sleep(self._poll_s)
        return behind

    async def _wipe_log(self) -> None:
        at: int | None = 0
        while at is not None:
            began_at = time.monotonic()
            reached = await self._log.wipe(at, self._settings.erasure.max_pages)
            await asyncio.sleep(self._poll_s if reached == at else time.monotonic() - began_at)
            at = reached


async def _all_pieces(do: Callable[[], Awaitable[bool]]) -> None:
    """Do pieces until there are no more, with pauses as long as each, in which writes have their turn."""
    has_more = True
    while has_more:
        began_at = time.monotonic()
        has_more = await do()
        await asyncio.sleep(time.monotonic() - began_at)
