"""Listing conversations, the one with the latest message first."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nomemory.server.search.cursor import ConversationPlace, Cursors, Listing
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import ConversationSummary

_MARK_BYTES = 8


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page, the latest first. `next_cursor` is empty on the last one."""

    conversations: Sequence[ConversationSummary]
    next_cursor: str


class ConversationListing:
    """Reads pages of conversations off the log.

    A page sums up the versions that existed at the first page and still do. So what is written later changes nothing.
    What is deleted or replaced later can only move a conversation back in the order. One that was delivered might then
    come up again; the cursor carries the marks of those to which that can happen: their first message lies behind the
    place where the listing stands. Where conversations follow each other in time, there are hardly any.
    """

    def __init__(self, log: LogReader, cursors: Cursors) -> None:
        self._log = log
        self._cursors = cursors

    async def page(self, listing: Listing, page_size: int, cursor: str) -> ConversationPage:
        """Read one page.

        Raises:
            Fault: one of the CURSOR_… reasons.
        """
        place = await self._place(listing, cursor)
        found = await self._log.conversations(listing.user_id, pinned=place.pinned)
        ahead = [item for item in found if _is_ahead(item, place)]
        page = ahead[:page_size]
        if len(page) == len(ahead):
            return ConversationPage(page, "")
        return ConversationPage(page, self._cursors.issue(listing, _place_after(page[-1], place, found)))

    async def _place(self, listing: Listing, cursor: str) -> _Place:
        if not cursor:
            return _Place(await self._log.user_sequence(listing.user_id))
        resumed = self._cursors.resume(listing, cursor, ConversationPlace)
        return _Place(resumed.pinned, (resumed.last_us, resumed.conversation_id), _split(resumed.delivered))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a listing stands: after a place in the order, None at the beginning, with the marks of a cursor."""

    pinned: int
    after: tuple[int, str] | None = None
    delivered: frozenset[bytes] = frozenset()


def _is_ahead(one: ConversationSummary, place: _Place) -> bool:
    if place.after is None:
        return True
    return (one.last_us, one.conversation_id) < place.after and _mark(one) not in place.delivered


def _place_after(last: ConversationSummary, place: _Place, found: Iterable[ConversationSummary]) -> ConversationPlace:
    """Return the place after the last conversation of a page."""
    after = (last.last_us, last.conversation_id)
    reaching_behind = (item for item in found if (item.first_us, item.conversation_id) < after)
    delivered = [
        _mark(item)
        for item in reaching_behind
        # Nothing ever moves forward in the order, so what stands before this place was delivered.
        if (item.last_us, item.conversation_id) >= after or _mark(item) in place.delivered
    ]
    return ConversationPlace(place.pinned, *after, base64.b64encode(b"".join(delivered)).decode())


def _mark(one: ConversationSummary) -> bytes:
    return hashlib.blake2b(one.conversation_id.encode(), digest_size=_MARK_BYTES).digest()


def _split(delivered: str) -> frozenset[bytes]:
    marks = base64.b64decode(delivered)
    return frozenset(marks[at : at + _MARK_BYTES] for at in range(0, len(marks), _MARK_BYTES))
