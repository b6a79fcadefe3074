"""Listing by words, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nomemory.server.faults import index_unavailable
from nomemory.server.search.cursor import Cursors, Listing, RankedPlace
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.protocol import FrozenRanking, LexicalHit, LexicalIndex, LexicalSearch, RankPosition
from nomemory.server.search.lexical.window import RankingWindow
from nomemory.server.search.ranked import Ranked
from nomemory.server.search.reply_budget import ExtraBytes, count_fitting, no_extra_bytes
from nomemory.server.store.protocol import LogReader

_MARGIN: Final = 8
"""Number of hits that are searched for beyond a page, for those that the log no longer has."""


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A page, best first.

    Attributes:
        items: the messages with their scores.
        next_cursor: continues the listing; empty on the last page.
        behind: whether messages of this user are not searchable yet.
        truncated: whether more messages match than are ranked.
    """

    items: list[Ranked]
    next_cursor: str
    behind: bool
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class _ListingState:
    """A listing, frozen as it was at its first page, and the last item that was delivered."""

    listing: Listing
    query: Query
    ranking: FrozenRanking
    delivered: tuple[float, int, str] | None = None

    def is_ahead(self, item: Ranked) -> bool:
        return self.delivered is None or item.order() < self.delivered

    def place_after(self, item: Ranked) -> RankedPlace:
        applied, weights, window = self.ranking
        terms, since_us = window or (None, None)
        return RankedPlace(applied, weights, terms, since_us, *item.order())


class LexicalListing:
    """Reads pages off the lexical index, and the messages themselves off the log.

    The cursor holds what the index had applied at the first page, and the weights and the window of the query then, so
    that a score is a function of cursor and message alone.
    """

    def __init__(self, index: LexicalIndex, log: LogReader, cursors: Cursors, max_response_bytes: int) -> None:
        self._index = index
        self._log = log
        self._cursors = cursors
        self._reply_max_bytes = max_response_bytes

    async def reached(self, user_id: str, sequence: int) -> bool:
        """Return whether the index has applied this user's changes up to a sequence."""
        if not self._index.lags:
            return True
        await self._index.refresh()
        applied = await self._index.applied(user_id)
        return applied >= sequence or applied >= await self._log.user_sequence(user_id)

    async def page(
        self, listing: Listing, query: Query, page_size: int, cursor: str, extra_bytes: ExtraBytes = no_extra_bytes
    ) -> RankedPage:
        """Read one page; `extra_bytes` counts towards the size of the reply.

        Raises:
            Fault: one of the CURSOR_… reasons, or INDEX_UNAVAILABLE.
        """
        await self._index.refresh()
        applied = await self._index.applied(listing.user_id) if self._index.lags else None
        state = self._resume(listing, query, cursor, applied) if cursor else await self._begin(listing, query)
        following = await self._next(state, page_size + 1)
        fits = count_fitting((item.message for item in following[:page_size]), self._reply_max_bytes, extra_bytes)
        items = following[:fits]
        next_cursor = self._cursors.issue(listing, state.place_after(items[-1])) if fits < len(following) else ""
        behind = applied is not None and applied < await self._log.user_sequence(listing.user_id)
        return RankedPage(items, next_cursor, behind, truncated=state.ranking.window is not None)

    async def _begin(self, listing: Listing, query: Query) -> _ListingState:
        return _ListingState(listing, query, await self._index.freeze(listing.user_id, query, listing.narrowed))

    def _resume(self, listing: Listing, query: Query, cursor: str, applied: int | None) -> _ListingState:
        place = self._cursors.resume(listing, cursor, RankedPlace)
        if applied is not None and applied < place.pinned:
            raise index_unavailable("the lexical index is being built anew")
        terms, since_us = place.window_terms, place.window_since_us
        window = None if terms is None or since_us is None else RankingWindow(terms, since_us)
        ranking = FrozenRanking(place.pinned, tuple(place.weights), window)
        return _ListingState(listing, query, ranking, (place.score, place.ts_us, place.message_id))

    async def _next(self, state: _ListingState, wanted: int) -> list[Ranked]:
        """Return the next items of a listing, fewer than wanted only if there are no more."""
        items: list[Ranked] = []
        limit = wanted + _MARGIN
        start = RankPosition(*state.delivered[:2]) if state.delivered else None
        while len(items) < wanted:
            listing = state.listing
            search = LexicalSearch(listing.user_id, state.query, state.ranking, listing.narrowed, start, limit)
            hits = await self._index.search(search)
            ranked = filter(state.is_ahead, await self._resolve(listing.user_id, hits))
            items += sorted(ranked, key=Ranked.order, reverse=True)
            if len(hits) < limit:
                break
            start = RankPosition(hits[-1].score, hits[-1].ts_us - 1)  # hits of one position are never separated
        return items[:wanted]

    async def _resolve(self, user_id: str, hits: Sequence[LexicalHit]) -> list[Ranked]:
        """Return the messages of the hits that the log still has."""
        messages = {hit.sequence: hit.message for hit in hits if hit.message}
        if unresolved := [hit.sequence for hit in hits if hit.message is None]:
            messages |= await self._log.by_sequences(user_id, unresolved)
        return [Ranked(messages[hit.sequence], hit.score) for hit in hits if hit.sequence in messages]
