"""List the results of a lexical search, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nomemory.server.faults import build_index_unavailable_fault
from nomemory.server.search.cursor import CursorCodec, Listing, RankedCursor
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.protocol import FrozenRanking, LexicalHit, LexicalIndex, LexicalSearch, RankPosition
from nomemory.server.search.lexical.window import RankingWindow
from nomemory.server.search.ranked import RankedMessage
from nomemory.server.search.reply_budget import ExtraBytes, count_fitting_messages, count_no_extra_bytes
from nomemory.server.store.protocol import LogReader

_MARGIN: Final = 8
"""Additional hits per search, to compensate for messages that the message log has deleted."""


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A page of results, best first.

    Attributes:
        next_cursor: the cursor of the next page; empty on the last page.
        index_lagging: whether some messages of the user are not in the index yet.
        truncated: whether only the matches in the ranking window are ranked.
    """

    items: list[RankedMessage]
    next_cursor: str
    index_lagging: bool
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class _ListingState:
    """A listing, with its ranking when page 1 was read, and the sort key of the last returned item."""

    listing: Listing
    query: Query
    ranking: FrozenRanking
    last: tuple[float, int, str] | None = None

    def is_remaining(self, item: RankedMessage) -> bool:
        return self.last is None or item.build_sort_key() < self.last

    def build_cursor(self, item: RankedMessage) -> RankedCursor:
        applied, weights, window = self.ranking
        term_count, since_us = window or (None, None)
        return RankedCursor(applied, weights, term_count, since_us, *item.build_sort_key())


class LexicalListing:
    """Reads pages of hits from the lexical index, and their messages from the message log.

    The cursor contains the sequence number, the weights and the window of the first page. A score therefore depends
    only on the cursor and the message.
    """

    def __init__(self, index: LexicalIndex, log: LogReader, cursors: CursorCodec, max_response_bytes: int) -> None:
        self._index = index
        self._log = log
        self._cursors = cursors
        self._max_response_bytes = max_response_bytes

    async def has_applied(self, user_id: str, sequence: int) -> bool:
        """Return whether the index has applied a user's changes up to a sequence number."""
        if not self._index.can_lag:
            return True
        await self._index.refresh()
        applied = await self._index.read_applied_sequence(user_id)
        return applied >= sequence or applied >= await self._log.read_user_sequence(user_id)

    async def read_page(
        self,
        listing: Listing,
        query: Query,
        page_size: int,
        cursor: str,
        extra_bytes: ExtraBytes = count_no_extra_bytes,
    ) -> RankedPage:
        """Return the page of results after a cursor.

        The bytes that `extra_bytes` returns count towards the response size.

        Raises:
            Fault: the cursor is invalid, with one of the CURSOR_… reasons; or INDEX_UNAVAILABLE.
        """
        await self._index.refresh()
        applied = await self._index.read_applied_sequence(listing.user_id) if self._index.can_lag else None
        state = (
            self._resume_listing(listing, query, cursor, applied)
            if cursor
            else await self._start_listing(listing, query)
        )
        items = await self._read_next_items(state, page_size + 1)
        count = count_fitting_messages(
            (item.message for item in items[:page_size]), self._max_response_bytes, extra_bytes
        )
        page = items[:count]
        next_cursor = self._cursors.issue(listing, state.build_cursor(page[-1])) if count < len(items) else ""
        index_lagging = applied is not None and applied < await self._log.read_user_sequence(listing.user_id)
        return RankedPage(page, next_cursor, index_lagging, truncated=state.ranking.window is not None)

    async def _start_listing(self, listing: Listing, query: Query) -> _ListingState:
        return _ListingState(listing, query, await self._index.freeze(listing.user_id, query, listing.filter))

    def _resume_listing(self, listing: Listing, query: Query, cursor: str, applied: int | None) -> _ListingState:
        resumed = self._cursors.resume(listing, cursor, RankedCursor)
        if applied is not None and applied < resumed.pinned_sequence:
            raise build_index_unavailable_fault("the lexical index is being rebuilt: retry later")
        term_count, since_us = resumed.window_term_count, resumed.window_since_us
        window = None if term_count is None or since_us is None else RankingWindow(term_count, since_us)
        ranking = FrozenRanking(resumed.pinned_sequence, tuple(resumed.weights), window)
        return _ListingState(listing, query, ranking, (resumed.score, resumed.ts_us, resumed.message_id))

    async def _read_next_items(self, state: _ListingState, count: int) -> list[RankedMessage]:
        """Return the next `count` items of the listing; return fewer items only at the end of the listing."""
        items: list[RankedMessage] = []
        limit = count + _MARGIN
        start = RankPosition(*state.last[:2]) if state.last else None
        while len(items) < count:
            listing = state.listing
            search = LexicalSearch(listing.user_id, state.query, state.ranking, listing.filter, start, limit)
            hits = await self._index.search(search)
            ranked = filter(state.is_remaining, await self._resolve_hits(listing.user_id, hits))
            items += sorted(ranked, key=RankedMessage.build_sort_key, reverse=True)
            if len(hits) < limit:
                break
            start = RankPosition(hits[-1].score, hits[-1].ts_us - 1)  # hits with equal score and time are not separated
        return items[:count]

    async def _resolve_hits(self, user_id: str, hits: Sequence[LexicalHit]) -> list[RankedMessage]:
        """Return the messages of hits; skip versions that the message log has deleted."""
        messages = {hit.sequence: hit.message for hit in hits if hit.message}
        if unresolved := [hit.sequence for hit in hits if hit.message is None]:
            messages |= await self._log.read_versions(user_id, unresolved)
        return [RankedMessage(messages[hit.sequence], hit.score) for hit in hits if hit.sequence in messages]
