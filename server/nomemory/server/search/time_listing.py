"""List messages by time, newest or oldest first, in pages or in the batches of an export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from nomemory.server.message import LoggedMessage
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.search.cursor import Cursors, Listing, Place
from nomemory.server.search.reply_budget import ExtraBytes, count_fitting, count_fitting_wires, no_extra_bytes
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import Position
from nomemory.server.wire import sort_key


@dataclass(frozen=True, slots=True)
class TimePage:
    """A page, newest first. `next_cursor` is empty on the last one."""

    messages: list[LoggedMessage]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class WirePage:
    """A page, in the order of its listing, as the bytes of ChatMessages. `next_cursor` is empty on the last one."""

    wires: list[bytes]
    next_cursor: str


class TimeListing:
    """Reads pages off the log.

    A page holds the versions that existed at the first page and still do: later writes and replacements have a
    higher sequence than the one that the cursor pins.

    Args:
        log: the message log.
        cursors: seal and open the places of pages.
        max_response_bytes: where a page ends early.
        slots: of the expensive reads.
    """

    def __init__(self, log: LogReader, cursors: Cursors, max_response_bytes: int, slots: RoundRobinLimit) -> None:
        self._log = log
        self._slots = slots
        self._cursors = cursors
        self._reply_max_bytes = max_response_bytes

    async def page(
        self, listing: Listing, page_size: int, cursor: str, extra_bytes: ExtraBytes = no_extra_bytes
    ) -> TimePage:
        """Read one page, newest first; `extra_bytes` counts towards the size of the reply.

        Raises:
            Fault: one of the CURSOR_… reasons.
        """
        before, pinned = await self._resume(listing, cursor)
        found = await self._log.page(
            listing.user_id, listing.narrowed, before=before, pinned=pinned, limit=page_size + 1
        )
        messages = found[: count_fitting(found[:page_size], self._reply_max_bytes, extra_bytes)]
        if len(messages) == len(found):
            return TimePage(messages, "")
        last = messages[-1]
        return TimePage(messages, self._cursors.issue(listing, Place(pinned, last.ts_us, last.message_id)))

    async def wire_page(self, listing: Listing, page_size: int, cursor: str) -> WirePage:
        """Read one page, in the order of the listing, for a reply that is spliced together.

        Raises:
            Fault: one of the CURSOR_… reasons.
        """
        pinned, found = await self._wires(listing, page_size + 1, cursor)
        wires = found[: count_fitting_wires(found[:page_size], self._reply_max_bytes)]
        if len(wires) == len(found):
            return WirePage(wires, "")
        return WirePage(wires, self._cursors.issue(listing, Place(pinned, *sort_key(wires[-1]))))

    async def batches(self, listing: Listing, batch_max: int, cursor: str) -> AsyncIterator[WirePage]:
        """Read a listing from a cursor to its end, in batches of at most so many messages.

        Each batch is a page of its own, with a cursor that resumes after it. It holds a slot of the expensive reads
        while it is read, not while the caller takes it. All batches are pinned at the sequence of the first. The last
        one has no cursor; it is empty if nothing is left.

        Raises:
            Fault: one of the CURSOR_… reasons.
        """
        while True:
            async with self._slots.slot(listing.user_id):
                page = await self.wire_page(listing, batch_max, cursor)
            yield page
            cursor = page.next_cursor
            if not cursor:
                return

    async def _wires(self, listing: Listing, limit: int, cursor: str) -> tuple[int, list[bytes]]:
        """Return the sequence that pins a listing, and up to `limit` messages of it."""
        user_id, narrowed, oldest_first = listing.user_id, listing.narrowed, listing.oldest_first
        if not cursor:
            first = await self._log.first_encoded_page(user_id, narrowed, limit=limit, oldest_first=oldest_first)
            return first.pinned, first.messages
        after, pinned = await self._resume(listing, cursor)
        found = await self._log.encoded_page(
            user_id, narrowed, after=after, pinned=pinned, limit=limit, oldest_first=oldest_first
        )
        return pinned, found

    async def _resume(self, listing: Listing, cursor: str) -> tuple[Position | None, int]:
        """Return the position that a page starts after, and the sequence that pins the listing."""
        if not cursor:
            return None, await self._log.user_sequence(listing.user_id)
        place = self._cursors.resume(listing, cursor, Place)
        return Position(place.ts_us, place.message_id), place.pinned
