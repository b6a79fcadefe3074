"""List messages by time, newest or oldest first, in pages or in batches for an export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from nomemory.server.message import LoggedMessage
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.search.cursor import CursorCodec, Listing, TimeCursor
from nomemory.server.search.reply_budget import (
    ExtraBytes,
    count_fitting_encoded_messages,
    count_fitting_messages,
    count_no_extra_bytes,
)
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import MessagePosition
from nomemory.server.wire import build_sort_key


@dataclass(frozen=True, slots=True)
class TimePage:
    """A page of messages, newest first. `next_cursor` is empty on the last page."""

    messages: list[LoggedMessage]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class WirePage:
    """A page of encoded ChatMessages, in the order of the listing. `next_cursor` is empty on the last page."""

    wires: list[bytes]
    next_cursor: str


class TimeListing:
    """Reads pages of messages from the message log.

    A page contains the message versions that existed when the first page was read and that have not been deleted since.
    Versions that are written later are not listed, because their sequence number is higher than the pinned sequence
    number.

    Args:
        slots: the limit of concurrent expensive reads.
    """

    def __init__(self, log: LogReader, cursors: CursorCodec, max_response_bytes: int, slots: RoundRobinLimit) -> None:
        self._log = log
        self._slots = slots
        self._cursors = cursors
        self._max_response_bytes = max_response_bytes

    async def read_page(
        self, listing: Listing, page_size: int, cursor: str, extra_bytes: ExtraBytes = count_no_extra_bytes
    ) -> TimePage:
        """Return the page of messages after a cursor.

        The bytes that `extra_bytes` returns count towards the response size.

        Raises:
            Fault: the cursor is invalid; the reason is one of CURSOR_….
        """
        before, pinned = await self._resume_listing(listing, cursor)
        messages = await self._log.read_page(
            listing.user_id, listing.filter, before=before, pinned=pinned, limit=page_size + 1
        )
        page = messages[: count_fitting_messages(messages[:page_size], self._max_response_bytes, extra_bytes)]
        if len(page) == len(messages):
            return TimePage(page, "")
        last = page[-1]
        return TimePage(page, self._cursors.issue(listing, TimeCursor(pinned, last.ts_us, last.message_id)))

    async def read_wire_page(self, listing: Listing, page_size: int, cursor: str) -> WirePage:
        """Return the page of encoded messages after a cursor, in the order of the listing.

        Raises:
            Fault: the cursor is invalid; the reason is one of CURSOR_….
        """
        pinned, wires = await self._read_wires(listing, page_size + 1, cursor)
        page = wires[: count_fitting_encoded_messages(wires[:page_size], self._max_response_bytes)]
        if len(page) == len(wires):
            return WirePage(page, "")
        return WirePage(page, self._cursors.issue(listing, TimeCursor(pinned, *build_sort_key(page[-1]))))

    async def read_batches(self, listing: Listing, batch_size: int, cursor: str) -> AsyncIterator[WirePage]:
        """Yield the messages of a listing after a cursor, in batches of at most `batch_size` messages.

        The cursor of a batch continues the listing after the batch. All batches are pinned at the sequence number of
        the first batch. The last batch has no cursor and may be empty. A slot for expensive reads is held while a batch
        is read, but not while the caller processes it.

        Raises:
            Fault: the cursor is invalid; the reason is one of CURSOR_….
        """
        while True:
            async with self._slots.slot(listing.user_id):
                page = await self.read_wire_page(listing, batch_size, cursor)
            yield page
            cursor = page.next_cursor
            if not cursor:
                return

    async def _read_wires(self, listing: Listing, limit: int, cursor: str) -> tuple[int, list[bytes]]:
        """Return the pinned sequence number and up to `limit` encoded messages."""
        user_id, message_filter, oldest_first = listing.user_id, listing.filter, listing.oldest_first
        if not cursor:
            first = await self._log.read_first_encoded_page(
                user_id, message_filter, limit=limit, oldest_first=oldest_first
            )
            return first.pinned, first.messages
        after, pinned = await self._resume_listing(listing, cursor)
        wires = await self._log.read_encoded_page(
            user_id, message_filter, after=after, pinned=pinned, limit=limit, oldest_first=oldest_first
        )
        return pinned, wires

    async def _resume_listing(self, listing: Listing, cursor: str) -> tuple[MessagePosition | None, int]:
        """Return the position after which the next page starts, and the pinned sequence number."""
        if not cursor:
            return None, await self._log.read_user_sequence(listing.user_id)
        resumed = self._cursors.resume(listing, cursor, TimeCursor)
        return MessagePosition(resumed.ts_us, resumed.message_id), resumed.pinned_sequence
