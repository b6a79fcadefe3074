"""Semantic search: find the messages most similar to a text or a vector."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.embedding.vector import Vector
from nomemory.server.message_filter import Filter
from nomemory.server.search.ranked import RankedMessage
from nomemory.server.search.reply_budget import count_fitting_messages
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.search.speakers import SpeakerNameSampler
from nomemory.server.store.protocol import LogReader
from nomemory.text.names import remove_speaker_names

_MARGIN = 8
"""Additional hits per search, to compensate for messages that the message log has deleted."""


_GROWTH = 4


@dataclass(frozen=True, slots=True)
class SemanticQuery:
    """The parameters of a semantic search. Exactly one of `text` and `vector` is set."""

    user_id: str
    text: str | None
    vector: Vector | None
    filter: Filter
    top_k: int
    min_score: float | None


@dataclass(frozen=True, slots=True)
class SemanticResult:
    """The most similar messages, best first."""

    items: list[RankedMessage]
    truncated: bool
    index_lagging: bool


class SemanticSearch:
    """Searches a vector index, and reads the messages from the message log."""

    def __init__(self, log: LogReader, speakers: SpeakerNameSampler, max_response_bytes: int) -> None:
        self._log = log
        self._speakers = speakers
        self._max_response_bytes = max_response_bytes

    async def has_applied(self, space: VectorSpace, user_id: str, sequence: int) -> bool:
        """Return whether the index has applied a user's changes up to a sequence number."""
        latest = await self._log.read_user_sequence(user_id)
        if not await space.progress.is_lagging(user_id, min(sequence, latest)):
            return True
        space.progress.poll()
        return False

    async def search(self, space: VectorSpace, query: SemanticQuery) -> SemanticResult:
        """Return the most similar messages.

        Raises:
            Fault: EMBEDDER_DISABLED, EMBEDDER_UNAVAILABLE or INDEX_UNAVAILABLE.
        """
        latest = await self._log.read_user_sequence(query.user_id)
        index_lagging = await space.progress.is_lagging(query.user_id, latest)
        vector = query.vector or await space.embed_query(query.user_id, await self._build_embedding_text(query))
        ranked = await self._rank_messages(space, query, vector)
        items = ranked[: count_fitting_messages((item.message for item in ranked), self._max_response_bytes)]
        return SemanticResult(items, truncated=len(items) < len(ranked), index_lagging=index_lagging)

    async def _build_embedding_text(self, query: SemanticQuery) -> str:
        """Return the query text without author names, or unchanged if it has no other words.

        Author names would make greetings similar to the query.
        """
        text = query.text or ""
        names = await self._speakers.read_names(query.user_id, query.filter.until_us)
        return remove_speaker_names(text, names) or text

    async def _rank_messages(self, space: VectorSpace, query: SemanticQuery, vector: Vector) -> list[RankedMessage]:
        """Search with an increasing limit until enough of the hits exist in the message log."""
        limit = query.top_k + _MARGIN
        while True:
            hits = await space.vectors.search(query.user_id, vector, query.filter, limit)
            above = [hit for hit in hits if query.min_score is None or hit.score >= query.min_score]
            versions = await self._log.read_versions(query.user_id, [hit.sequence for hit in above])
            ranked = [RankedMessage(versions[hit.sequence], hit.score) for hit in above if hit.sequence in versions]
            if len(ranked) >= query.top_k or len(above) < limit:
                return sorted(ranked, key=RankedMessage.build_sort_key, reverse=True)[: query.top_k]
            limit *= _GROWTH
