"""Semantic search: the messages nearest to a text or a vector."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.embedding.vector import Vector
from nomemory.server.message_filter import Filter
from nomemory.server.search.ranked import Ranked
from nomemory.server.search.reply_budget import count_fitting
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.search.speakers import SpeakerNames
from nomemory.server.store.protocol import LogReader
from nomemory.text.names import without_speakers

_MARGIN = 8
"""Extra hits that are fetched for those that the log no longer has, so that a second search is rare."""


_GROWTH = 4


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A search by meaning, by a text or by the caller's own vector, exactly one of them."""

    user_id: str
    text: str | None
    vector: Vector | None
    narrowed: Filter
    top_k: int
    min_score: float | None


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest messages, best first."""

    items: list[Ranked]
    truncated: bool
    behind: bool


class NearestMessages:
    """Searches a vector index, and reads the messages themselves off the log."""

    def __init__(self, log: LogReader, speakers: SpeakerNames, max_response_bytes: int) -> None:
        self._log = log
        self._speakers = speakers
        self._reply_max_bytes = max_response_bytes

    async def reached(self, space: VectorSpace, user_id: str, sequence: int) -> bool:
        """Return whether the index has applied this user's changes up to a sequence."""
        if not await space.progress.behind(user_id, min(sequence, await self._log.user_sequence(user_id))):
            return True
        space.progress.poll()
        return False

    async def search(self, space: VectorSpace, query: NearestQuery) -> Nearest:
        """Return the nearest messages.

        Raises:
            Fault: EMBEDDER_DISABLED, EMBEDDER_UNAVAILABLE or INDEX_UNAVAILABLE.
        """
        behind = await space.progress.behind(query.user_id, await self._log.user_sequence(query.user_id))
        vector = query.vector or await space.embed_query(query.user_id, await self._meant(query))
        ranked = await self._ranked(space, query, vector)
        items = ranked[: count_fitting((item.message for item in ranked), self._reply_max_bytes)]
        return Nearest(items, truncated=len(items) < len(ranked), behind=behind)

    async def _meant(self, query: NearestQuery) -> str:
        """Return the text without speakers' names, which stand in greetings; a text of nothing else as it is."""
        text = query.text or ""
        names = await self._speakers.of(query.user_id, query.narrowed.until_us)
        return without_speakers(text, names) or text

    async def _ranked(self, space: VectorSpace, query: NearestQuery, vector: Vector) -> list[Ranked]:
        """Search, and again with a larger limit while too many hits are gone from the log."""
        limit = query.top_k + _MARGIN
        while True:
            hits = await space.vectors.search(query.user_id, vector, query.narrowed, limit)
            above = [hit for hit in hits if query.min_score is None or hit.score >= query.min_score]
            versions = await self._log.by_sequences(query.user_id, [hit.sequence for hit in above])
            ranked = [Ranked(versions[hit.sequence], hit.score) for hit in above if hit.sequence in versions]
            if len(ranked) >= query.top_k or len(above) < limit:
                return sorted(ranked, key=Ranked.order, reverse=True)[: query.top_k]
            limit *= _GROWTH
