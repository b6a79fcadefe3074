"""Read the messages to rank: all messages of a user, or, if there are many, the candidates and their neighbors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Final

import numpy as np

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.search.hybrid.author_labels import AuthorLabelFinder
from nomemory.server.search.hybrid.candidate_messages import Timeline, build_timeline
from nomemory.server.search.hybrid.message_features import FeatureCache
from nomemory.server.search.hybrid.query_analysis import ParsedQuestion
from nomemory.server.search.hybrid.ranking import MAX_RETRACTION_CHAIN
from nomemory.server.search.hybrid.semantic_hits import SemanticHits
from nomemory.server.search.hybrid.term_occurrences import (
    TermOccurrences,
    convert_postings,
    find_term_occurrences,
)
from nomemory.server.search.hybrid.term_scores import compute_idf
from nomemory.server.search.hybrid.timeline_cache import TimelineCache, TimelineKey
from nomemory.server.search.lexical.protocol import LexicalIndex, Posting
from nomemory.server.search.semantic.protocol import VectorHit
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import LogCounts, MessagePosition

_MAX_DOCUMENT_FREQUENCY: Final = 4096
"""Terms in more messages of the user than this are not used to find candidates."""
_MAX_ANCHORS: Final = 24
"""Number of the best candidates whose neighbors are added."""
_NEIGHBORS: Final = 3
"""Number of neighbors before and after each anchor that are added."""
_MAX_PERIOD_MESSAGES: Final = 256
_NOT_PINNED: Final = 2**62
_BATCH: Final = 256
"""Messages per read of the message log."""
_MAX_READ_BYTES: Final = 16_000_000
"""Approximate limit of the messages of one ranking. Beyond it, a user is treated like one with many messages."""


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """The candidate messages, the number of the user's messages, and the filter for counting document frequencies."""

    timeline: Timeline
    total: int
    lexical_filter: Filter

    @property
    def is_complete(self) -> bool:
        """Whether all messages of the user before the end of the time range are candidates."""
        return len(self.timeline) == self.total

    @property
    def searches_messages(self) -> bool:
        """Whether terms are searched in the messages instead of the index, because that is faster for few messages."""
        return self.is_complete and self.timeline.is_short

    def find_occurrences(
        self, terms: Sequence[str], postings: Mapping[str, Posting] | None
    ) -> Mapping[str, TermOccurrences]:
        """Return the occurrences of terms, given the result of `CandidatePoolReader.read_postings`."""
        if postings is None:
            return find_term_occurrences(self.timeline, terms)
        return convert_postings(self.timeline, postings)

    def truncate(self, until_us: int | None) -> CandidatePool:
        """Return the pool without the messages at or after a time."""
        return replace(self, timeline=self.timeline.truncate(until_us))


@dataclass(frozen=True, slots=True)
class LexicalCandidates:
    """The candidates that a search finds without vectors.

    Attributes:
        postings_by_sentence: the postings of the terms of each sentence.
        messages_by_period: the newest messages of each time range that the question names, newest first.
    """

    postings_by_sentence: Sequence[Sequence[Posting]]
    messages_by_period: Sequence[Sequence[LoggedMessage]]


@dataclass
class CandidatePoolReader:
    """Reads pools of messages to rank. Every message in a pool is before the end of the filter's time range.

    Attributes:
        threads: runs long computations.
        candidates_max: the maximum number of candidates for a user with many messages: from each of the two searches,
            lexical and semantic, and from both together.
        timeline_max: the number of messages up to which all messages of a user are ranked.
        cache_bytes: the total memory limit of the message cache and the feature cache.
    """

    log: LogReader
    lexical: LexicalIndex
    threads: ReadThreads
    candidates_max: int
    timeline_max: int
    cache_bytes: int
    author_labels: AuthorLabelFinder = field(init=False)
    _timelines: TimelineCache = field(init=False)
    _features: FeatureCache = field(init=False)

    def __post_init__(self) -> None:
        """Create the message cache and the feature cache, each with half of `cache_bytes`."""
        self.author_labels = AuthorLabelFinder(self.lexical, self.log, _MAX_DOCUMENT_FREQUENCY)
        self._timelines = TimelineCache(self.cache_bytes // 2)
        self._features = FeatureCache(self.cache_bytes // 2)

    async def drop_redundant_until(self, user_id: str, message_filter: Filter) -> Filter:
        """Return the filter without the end of its time range, if the end is after all messages of the user.

        Callers often pass the current time as the end. With very many messages, a search of a time range with an end is
        expensive.
        """
        if message_filter.until_us is None:
            return message_filter
        latest = await self.log.read_page(user_id, EVERYTHING, before=None, pinned=_NOT_PINNED, limit=1)
        if latest and latest[0].ts_us < message_filter.until_us:
            return replace(message_filter, until_us=None)
        return message_filter

    async def count_messages(self, user_id: str, until_us: int | None, counts: LogCounts) -> int:
        """Return the number of a user's messages before a time, or of all messages if the user has few messages."""
        if until_us is None or counts.messages <= self.timeline_max:
            return counts.messages
        return await self.lexical.count_messages(user_id, Filter(until_us=until_us))

    async def read_complete_pool(
        self, user_id: str, until_us: int | None, counts: LogCounts, total: int
    ) -> CandidatePool | None:
        """Return a pool with all of a user's messages before a time; None if their number or size exceeds the limit.

        `counts` is the number of messages of the user at the start of the search. `total` is the result of
        `count_messages`.
        """
        if total > self.timeline_max:
            return None
        key_until_us = until_us if counts.messages > self.timeline_max else None
        key = TimelineKey(user_id, counts.sequence, counts.messages, key_until_us)
        timeline = await self._timelines.get(key, self._load_timeline)
        if timeline is None:
            return None
        before = timeline.truncate(until_us)
        lexical_filter = EVERYTHING if len(before) == counts.messages else Filter(until_us=until_us)
        return CandidatePool(before, len(before), lexical_filter)

    async def find_frequent_names(
        self, user_id: str, question: str, until_us: int | None, total: int
    ) -> tuple[str, ...]:
        """Return the names in a question that are author labels of many messages; none for a user with few messages."""
        if total <= self.timeline_max:
            return ()
        return await self.author_labels.find_frequent_names(user_id, question, until_us, total)

    async def read_candidates(
        self, user_id: str, message_filter: Filter, question: ParsedQuestion, periods: Sequence[Filter]
    ) -> LexicalCandidates:
        """Read the candidates that `read_pool` merges with the semantic hits.

        `periods` contains a filter for each time range that the question names.
        """
        postings_by_sentence = [
            await self.lexical.read_postings(user_id, sentence.terms, message_filter, _MAX_DOCUMENT_FREQUENCY)
            for sentence in question.sentences
        ]
        return LexicalCandidates(postings_by_sentence, await self.read_periods(user_id, periods))

    async def read_periods(self, user_id: str, periods: Sequence[Filter]) -> list[Sequence[LoggedMessage]]:
        """Return the newest messages of each time range, at most `_MAX_PERIOD_MESSAGES`, newest first."""
        return [
            await self.log.read_page(user_id, period, before=None, pinned=_NOT_PINNED, limit=_MAX_PERIOD_MESSAGES)
            for period in periods
        ]

    async def read_pool(
        self,
        user_id: str,
        message_filter: Filter,
        semantic_hits: Sequence[SemanticHits],
        candidates: LexicalCandidates,
        total: int,
    ) -> CandidatePool:
        """Read the messages to rank for a question of a user with many messages.

        `semantic_hits` contains the hits of each sentence, and is empty without semantic search. `total` is the result
        of `count_messages`.
        """
        overall = [hits.overall_hits for hits in semantic_hits]
        merged = await self.threads.run(
            _merge_candidates, candidates.postings_by_sentence, overall, total, self.candidates_max
        )
        in_period = [hit.sequence for hits in semantic_hits for hit in hits.period_hits]
        logged = await _read_limited_messages(self._read_batches(user_id, list(dict.fromkeys([*merged, *in_period]))))
        by_sequence = {message.sequence: message for message in chain(logged, *candidates.messages_by_period)}
        for message in await self._read_neighbors(logged[:_MAX_ANCHORS], message_filter.until_us):
            by_sequence[message.sequence] = message
        for message in await self._read_retractions(user_id, list(by_sequence.values()), message_filter.until_us):
            by_sequence[message.sequence] = message
        timeline = await self.threads.run(
            build_timeline, by_sequence.values(), read_features=self._features.read_features
        )
        return CandidatePool(timeline, total, message_filter)

    async def read_postings(
        self,
        user_id: str,
        pool: CandidatePool,
        terms: Sequence[str],
        max_sequences: int = _MAX_DOCUMENT_FREQUENCY,
    ) -> Mapping[str, Posting] | None:
        """Return the postings that `CandidatePool.find_occurrences` needs; None if terms are searched in the messages.

        The posting of a term in more than `max_sequences` messages may have no sequence numbers.
        """
        if pool.searches_messages:
            return None
        postings = await self.lexical.read_postings(user_id, terms, pool.lexical_filter, max_sequences)
        return dict(zip(terms, postings, strict=True))

    async def _load_timeline(self, key: TimelineKey, previous: Timeline | None) -> Timeline | None:
        logged = await _read_limited_messages(self._read_pages(key))
        if sum(len(message.wire) for message in logged) >= _MAX_READ_BYTES:
            return None
        return await self.threads.run(build_timeline, logged[: self.timeline_max], previous)

    async def _read_pages(self, key: TimelineKey) -> AsyncGenerator[Sequence[LoggedMessage], None]:
        before = _convert_to_page_position(key.until_us)
        for _ in range(0, self.timeline_max, _BATCH):
            page = await self.log.read_page(key.user_id, EVERYTHING, before=before, pinned=key.sequence, limit=_BATCH)
            yield page
            if len(page) < _BATCH:
                return
            before = MessagePosition(page[-1].ts_us, page[-1].message_id)

    async def _read_batches(
        self, user_id: str, sequences: Sequence[int]
    ) -> AsyncGenerator[Sequence[LoggedMessage], None]:
        for start in range(0, len(sequences), _BATCH):
            batch = sequences[start : start + _BATCH]
            by_sequence = await self.log.read_versions(user_id, batch)
            yield [by_sequence[sequence] for sequence in batch if sequence in by_sequence]

    async def _read_neighbors(self, anchors: Sequence[LoggedMessage], until_us: int | None) -> list[LoggedMessage]:
        sides = chain.from_iterable(await self.log.read_neighbors(anchors, _NEIGHBORS, _NEIGHBORS))
        messages = chain.from_iterable(sides)
        return _truncate_messages([message for message in messages if until_us is None or message.ts_us < until_us])

    async def _read_retractions(
        self, user_id: str, messages: Sequence[LoggedMessage], until_us: int | None
    ) -> list[LoggedMessage]:
        """Return the messages that retract any of the given messages, directly or through a chain of retractions."""
        present, unresolved, retracting = {message.message_id for message in messages}, messages, list[LoggedMessage]()
        for _ in range(MAX_RETRACTION_CHAIN):
            missing = {message.retracted_by for message in unresolved} - present - {""}
            if not missing:
                break
            by_id = await self.log.read_messages(user_id, sorted(missing))
            unresolved = [message for message in by_id.values() if until_us is None or message.ts_us < until_us]
            retracting = _truncate_messages([*retracting, *unresolved])
            present |= missing
        return retracting


def _convert_to_page_position(until_us: int | None) -> MessagePosition | None:
    """Convert a time to a position in the message log: reading from a position is faster than filtering by time."""
    return None if until_us is None else MessagePosition(until_us, "")


async def _read_limited_messages(pages: AsyncGenerator[Sequence[LoggedMessage], None]) -> list[LoggedMessage]:
    """Read pages until the messages exceed the byte limit.

    The result includes the message that exceeds the byte limit.
    """
    messages, size = list[LoggedMessage](), 0
    async with aclosing(pages):
        async for page in pages:
            messages += page
            size += sum(len(message.wire) for message in page)
            if size >= _MAX_READ_BYTES:
                return _truncate_messages(messages)
    return messages


def _truncate_messages(messages: list[LoggedMessage]) -> list[LoggedMessage]:
    """Return the first messages up to the byte limit. The result includes the message that exceeds the byte limit."""
    sizes = [len(message.wire) for message in messages]
    if sum(sizes) < _MAX_READ_BYTES:
        return messages
    last = next(index for index, size in enumerate(accumulate(sizes)) if size >= _MAX_READ_BYTES)
    return messages[: last + 1]


def _merge_candidates(
    by_sentence: Sequence[Sequence[Posting]], nearest: Sequence[Sequence[VectorHit]], total: int, limit: int
) -> list[int]:
    """Return the sequence numbers of the messages with the highest sums of normalized scores, best first."""
    merged: dict[int, float] = {}
    for sentence, postings in enumerate(by_sentence):
        lexical = _select_lexical_candidates(postings, total, limit)
        semantic = [(hit.sequence, hit.score) for hit in nearest[sentence]] if nearest else []
        for sequence, score in [*_normalize_min_max(lexical), *_normalize_min_max(semantic)]:
            merged[sequence] = merged.get(sequence, 0.0) + score
    newest_first = sorted(merged, reverse=True)
    return sorted(newest_first, key=merged.__getitem__, reverse=True)[:limit]


def _select_lexical_candidates(postings: Sequence[Posting], total: int, limit: int) -> list[tuple[int, float]]:
    """Return the sequence numbers of the messages with the highest sums of squared IDFs, and the sums, best first."""
    present = [posting for posting in postings if len(posting.sequences)]
    if not present:
        return []
    sequences = np.concatenate([posting.sequences for posting in present])
    weights = np.concatenate([np.full(len(item.sequences), compute_idf(item.count, total) ** 2) for item in present])
    unique, inverse = np.unique(sequences, return_inverse=True)
    sums = np.bincount(inverse, weights=weights)
    best = np.lexsort((-unique, -sums))[:limit]
    return list(zip(unique[best].tolist(), sums[best].tolist(), strict=True))


def _normalize_min_max(scored: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Normalize scores, given in descending order, to the range from 0 to 1."""
    if not scored:
        return []
    best, worst = scored[0][1], scored[-1][1]
    return [(sequence, (score - worst) / (best - worst) if best > worst else 1.0) for sequence, score in scored]
