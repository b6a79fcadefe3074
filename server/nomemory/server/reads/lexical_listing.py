"""Listing by words, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.cursor import Cursors, Listing, Place
from nomemory.server.faults import index_unavailable
from nomemory.server.lexical.protocol import LexicalHit, LexicalIndex, RankPosition, WordSearch
from nomemory.server.lexical.query.tree import Query
from nomemory.server.log.protocol import LogReader
from nomemory.server.reads.nearest_messages import Ranked, best
from nomemory.server.reads.reply_budget import Beside, fitting, nothing_beside


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A page, best first. `behind` says that messages of this user are not searchable yet."""

    items: list[Ranked]
    next_cursor: str
    behind: bool


@dataclass(frozen=True, slots=True)
class _Walk:
    """A listing, frozen as it was at its first page, and the place up to which it has been delivered."""

    listing: Listing
    query: Query
    pinned: int
    weights: tuple[float, ...]
    place: Place | None = None

    def is_ahead(self, item: Ranked) -> bool:
        return self.place is None or item.order() < (self.place.score, self.place.ts_us, self.place.message_id)

    def place_after(self, item: Ranked) -> Place:
        return Place(self.pinned, item.message.ts_us, item.message.message_id, item.score, self.weights)


class LexicalListing:
    """Reads pages off the lexical index, and the messages themselves off the log.

    The cursor pins what the index held at the first page and the weights of the query's terms then, so that a score
    is a function of cursor and message alone.
    """

    def __init__(self, index: LexicalIndex, log: LogReader, cursors: Cursors, reply_max_bytes: int) -> None:
        self._index = index
        self._log = log
        self._cursors = cursors
        self._reply_max_bytes = reply_max_bytes

    async def reached(self, user_id: str, sequence: int) -> bool:
        """Return whether the index has applied this user's changes up to a sequence."""
        if not self._index.lags:
            return True
        await self._index.refresh()
        applied = await self._index.applied(user_id)
        return applied >= sequence or applied >= await self._log.user_sequence(user_id)

    async def page(
        self, listing: Listing, query: Query, page_size: int, cursor: str, beside: Beside = nothing_beside
    ) -> RankedPage:
        """Read one page; `beside` counts towards the size of the reply.

        Raises:
            Fault: one of the CURSOR_… reasons, or INDEX_UNAVAILABLE.
        """
        await self._index.refresh()
        applied = await self._index.applied(listing.user_id) if self._index.lags else None
        walk = self._resumed(listing, query, cursor, applied) if cursor else await self._begun(listing, query)
        found = await self._next(walk, page_size + 1)
        items = found[: fitting((item.message for item in found[:page_size]), self._reply_max_bytes, beside)]
        behind = applied is not None and applied < await self._log.user_sequence(listing.user_id)
        if len(items) == len(found):
            return RankedPage(items, "", behind)
        return RankedPage(items, self._cursors.issue(listing, walk.place_after(items[-1])), behind)

    async def _begun(self, listing: Listing, query: Query) -> _Walk:
        weighed = await self._index.weigh(listing.user_id, query)
        return _Walk(listing, query, weighed.applied, weighed.weights)

    def _resumed(self, listing: Listing, query: Query, cursor: str, applied: int | None) -> _Walk:
        place = self._cursors.resume(listing, cursor, Place)
        if applied is not None and applied < place.pinned:
            raise index_unavailable("the lexical index is being built anew")
        return _Walk(listing, query, place.pinned, tuple(place.weights), place)

    async def _next(self, walk: _Walk, wanted: int) -> list[Ranked]:
        after = RankPosition(walk.place.score, walk.place.ts_us) if walk.place else None
        user_id = walk.listing.user_id

        async def fetch(limit: int) -> list[LexicalHit]:
            asked = WordSearch(user_id, walk.query, walk.weights, walk.listing.narrowed, walk.pinned, after, limit)
            return await self._index.search(asked)

        async def resolve(hits: Sequence[LexicalHit]) -> list[Ranked]:
            versions = {hit.sequence: hit.message for hit in hits if hit.message}
            if unresolved := [hit.sequence for hit in hits if hit.message is None]:
                versions |= await self._log.by_sequences(user_id, unresolved)
            ranked = [Ranked(versions[hit.sequence], hit.score) for hit in hits if hit.sequence in versions]
            return list(filter(walk.is_ahead, ranked))

        return await best(wanted, fetch, resolve)
