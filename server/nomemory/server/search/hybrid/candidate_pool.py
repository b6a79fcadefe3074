"""The messages that are ranked: all of a user with few messages, else the candidates and what stands around them."""

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
from nomemory.server.search.hybrid.candidate_messages import Timeline, timeline
from nomemory.server.search.hybrid.message_features import KeptFeatures
from nomemory.server.search.hybrid.nearest import NearestMessages
from nomemory.server.search.hybrid.query_analysis import ParsedQuestion
from nomemory.server.search.hybrid.ranking import CHAIN
from nomemory.server.search.hybrid.term_occurrences import Found, found_in, read_in
from nomemory.server.search.hybrid.term_scores import rarity
from nomemory.server.search.hybrid.timeline_cache import KeptTimelines, Key
from nomemory.server.search.lexical.protocol import LexicalIndex, Posting
from nomemory.server.search.semantic.protocol import VectorHit
from nomemory.server.search.speakers import Speakers
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import LogCounts, Position

_COMMON: Final = 4096
"""A term in more of a user's messages than this distinguishes nothing, and is left out."""
_SURROUNDED: Final = 32
"""Candidates whose surroundings are read."""
_AROUND: Final = 4
_PERIOD_MESSAGES: Final = 256
_NO_BOUND: Final = 2**62
_AT_ONCE: Final = 256
"""Messages that are read from the log at once."""
_READ_BYTES: Final = 16_000_000
"""About how many bytes are read for one ranking. A user with longer messages is treated as one with many."""


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """A timeline to rank, how many messages the user has in all, and what its words are narrowed to."""

    timeline: Timeline
    total: int
    narrowed: Filter

    @property
    def is_whole(self) -> bool:
        """Whether the timeline has all that the words are narrowed to."""
        return len(self.timeline) == self.total

    @property
    def reads_messages(self) -> bool:
        """Whether to read its messages for words costs less than to ask an index what stands where."""
        return self.is_whole and self.timeline.is_short

    def found(self, terms: Sequence[str], postings: Mapping[str, Posting] | None) -> Mapping[str, Found]:
        """Return at which places of the timeline terms stand, given their postings from `CandidatePools.postings`."""
        return read_in(self.timeline, terms) if postings is None else found_in(self.timeline, postings)

    def before(self, until_us: int | None) -> CandidatePool:
        """Return it without the messages said at or after a time."""
        return replace(self, timeline=self.timeline.before(until_us))


@dataclass
class CandidatePools:
    """Reads the messages to rank. None was said at or after the end of the filter's range.

    Attributes:
        log: where the messages are.
        words: the lexical index.
        threads: compute what takes long.
        of_long_log: finds the speakers of a log that is too long to be ranked whole.
        candidates_max: how many messages each of words and meaning proposes.
        timeline_max: all messages of a user with at most this many are ranked.
        cache_bytes: about how much memory what is known of messages from before may take.
    """

    log: LogReader
    words: LexicalIndex
    threads: ReadThreads
    of_long_log: Speakers
    candidates_max: int
    timeline_max: int
    cache_bytes: int
    _kept: KeptTimelines = field(init=False)
    _features: KeptFeatures = field(init=False)

    def __post_init__(self) -> None:
        """Share the memory among the two caches."""
        self._kept = KeptTimelines(self.cache_bytes // 2)
        self._features = KeptFeatures(self.cache_bytes // 2)

    async def open_ended(self, user_id: str, narrowed: Filter) -> Filter:
        """Return a filter that admits the same messages, without an end that lies after all of them.

        Who asks at some time asks for what was said before: that end is another with each question, and costs a search
        of a long log expensive.
        """
        if narrowed.until_us is None:
            return narrowed
        latest = await self.log.page(user_id, EVERYTHING, before=None, pinned=_NO_BOUND, limit=1)
        return replace(narrowed, until_us=None) if latest and latest[0].ts_us < narrowed.until_us else narrowed

    async def speakers(self, user_id: str, until_us: int | None, counts: LogCounts) -> tuple[str, ...]:
        """Return the speakers' names; of a long log, some who spoke lately and some who spoke before."""
        whole = await self._whole(user_id, until_us, counts)
        if whole is not None:
            return whole.timeline.foremost
        return await self.of_long_log.of(user_id, until_us)

    async def read(
        self,
        user_id: str,
        narrowed: Filter,
        asked: ParsedQuestion,
        nearest: Sequence[NearestMessages],
        counts: LogCounts,
        in_periods: Sequence[LoggedMessage] = (),
    ) -> CandidatePool:
        """Read the messages to rank.

        Args:
            user_id: whose.
            narrowed: what may be found.
            asked: the question.
            nearest: what is near to its sentences, if that is known.
            counts: how many messages the user had when the search began.
            in_periods: the messages of the periods that the question names.
        """
        whole = await self._whole(user_id, narrowed.until_us, counts)
        if whole is not None:
            return whole
        until = Filter(until_us=narrowed.until_us)
        total = counts.messages if until.until_us is None else await self.words.total(user_id, until)
        proposed = await self._proposed(user_id, narrowed, asked, [hits.overall for hits in nearest], total)
        in_period = [hit.sequence for hits in nearest for hit in hits.in_periods]
        logged = await _read(self._resolved(user_id, list(dict.fromkeys([*proposed, *in_period]))))
        known = {message.sequence: message for message in [*logged, *in_periods]}
        for message in await self._around(logged[:_SURROUNDED], narrowed.until_us):
            known[message.sequence] = message
        for message in await self._takers(user_id, list(known.values()), narrowed.until_us):
            known[message.sequence] = message
        around = await self.threads.run(timeline, known.values(), read=self._features.read)
        return CandidatePool(around, total, narrowed)

    async def messages_in_period(self, user_id: str, period: Filter) -> list[LoggedMessage]:
        """Return the latest messages of a period, at most `_PERIOD_MESSAGES`, latest first."""
        return list(await self.log.page(user_id, period, before=None, pinned=_NO_BOUND, limit=_PERIOD_MESSAGES))

    async def postings(
        self, user_id: str, pool: CandidatePool, terms: Sequence[str], most: int = _COMMON
    ) -> Mapping[str, Posting] | None:
        """Return the postings of terms, for `found`; None if the pool's own messages are read instead.

        A term in more than `most` messages may have a count and no sequences.
        """
        if pool.reads_messages:
            return None
        postings = await self.words.postings(user_id, terms, pool.narrowed, most)
        return dict(zip(terms, postings, strict=True))

    async def _whole(self, user_id: str, until_us: int | None, counts: LogCounts) -> CandidatePool | None:
        """Return all of a user's messages before a time; None if there are too many to rank."""
        if counts.messages > self.timeline_max and (
            until_us is None or await self.words.total(user_id, Filter(until_us=until_us)) > self.timeline_max
        ):
            return None
        ever = until_us if counts.messages > self.timeline_max else None
        whole = await self._kept.get(Key(user_id, counts.sequence, counts.messages, ever), self._all)
        if whole is None:
            return None
        before = whole.before(until_us)
        narrowed = EVERYTHING if len(before) == counts.messages else Filter(until_us=until_us)
        return CandidatePool(before, len(before), narrowed)

    async def _all(self, key: Key, known: Timeline | None) -> Timeline | None:
        logged = await _read(self._pages(key))
        if sum(len(message.wire) for message in logged) >= _READ_BYTES:
            return None
        return await self.threads.run(timeline, logged[: self.timeline_max], known)

    async def _pages(self, key: Key) -> AsyncGenerator[Sequence[LoggedMessage], None]:
        before = _end(key.until_us)
        for _ in range(0, self.timeline_max, _AT_ONCE):
            page = await self.log.page(key.user_id, EVERYTHING, before=before, pinned=key.sequence, limit=_AT_ONCE)
            yield page
            if len(page) < _AT_ONCE:
                return
            before = Position(page[-1].ts_us, page[-1].message_id)

    async def _resolved(self, user_id: str, sequences: Sequence[int]) -> AsyncGenerator[Sequence[LoggedMessage], None]:
        for at in range(0, len(sequences), _AT_ONCE):
            some = sequences[at : at + _AT_ONCE]
            found = await self.log.by_sequences(user_id, some)
            yield [found[sequence] for sequence in some if sequence in found]

    async def _around(self, anchors: Sequence[LoggedMessage], until_us: int | None) -> list[LoggedMessage]:
        sides = chain.from_iterable(await self.log.neighbors(anchors, _AROUND, _AROUND))
        messages = chain.from_iterable(sides)
        return _within_budget([message for message in messages if until_us is None or message.ts_us < until_us])

    async def _takers(self, user_id: str, known: Sequence[LoggedMessage], until_us: int | None) -> list[LoggedMessage]:
        """Return what took back any of some messages, and what took back that; without those that are known."""
        present, marked, takers = {message.message_id for message in known}, known, list[LoggedMessage]()
        for _ in range(CHAIN):
            missing = {message.retracted_by for message in marked} - present - {""}
            if not missing:
                break
            found = (await self.log.by_ids(user_id, sorted(missing))).values()
            marked = [item for item in found if until_us is None or item.ts_us < until_us]
            takers = _within_budget([*takers, *marked])
            present |= missing
        return takers

    async def _proposed(
        self, user_id: str, narrowed: Filter, asked: ParsedQuestion, nearest: Sequence[Sequence[VectorHit]], total: int
    ) -> list[int]:
        """Return the sequences of the candidates by words and by meaning, the most promising first."""
        by_sentence = [
            await self.words.postings(user_id, sentence.terms, narrowed, _COMMON) for sentence in asked.sentences
        ]
        return await self.threads.run(_promising, by_sentence, nearest, total, self.candidates_max)


def _end(until_us: int | None) -> Position | None:
    """Return the position before which all messages were said before a time. It bounds a page better than a filter."""
    return None if until_us is None else Position(until_us, "")


async def _read(pages: AsyncGenerator[Sequence[LoggedMessage], None]) -> list[LoggedMessage]:
    """Read pages up to the message that exceeds the limit in bytes, included."""
    read, size = list[LoggedMessage](), 0
    async with aclosing(pages):
        async for page in pages:
            read += page
            size += sum(len(message.wire) for message in page)
            if size >= _READ_BYTES:
                return _within_budget(read)
    return read


def _within_budget(messages: list[LoggedMessage]) -> list[LoggedMessage]:
    """Return messages up to the one that exceeds the limit in bytes, included."""
    sizes = [len(message.wire) for message in messages]
    if sum(sizes) < _READ_BYTES:
        return messages
    exceeding = next(place for place, size in enumerate(accumulate(sizes)) if size >= _READ_BYTES)
    return messages[: exceeding + 1]


def _promising(
    by_sentence: Sequence[Sequence[Posting]], nearest: Sequence[Sequence[VectorHit]], total: int, limit: int
) -> list[int]:
    """Return the sequences of the best candidates, best first, given what words and meaning propose by sentence."""
    promise: dict[int, float] = {}
    for place, postings in enumerate(by_sentence):
        by_words = _by_words(postings, total, limit)
        by_meaning = [(hit.sequence, hit.score) for hit in nearest[place]] if nearest else []
        for sequence, share in [*_shares(by_words), *_shares(by_meaning)]:
            promise[sequence] = promise.get(sequence, 0.0) + share
    latest_first = sorted(promise, reverse=True)
    return sorted(latest_first, key=promise.__getitem__, reverse=True)[:limit]


def _by_words(postings: Sequence[Posting], total: int, most: int) -> list[tuple[int, float]]:
    """Sum up the rarities of the terms in each message; return the best messages, best first."""
    present = [posting for posting in postings if len(posting.sequences)]
    if not present:
        return []
    sequences = np.concatenate([posting.sequences for posting in present])
    worths = np.concatenate([np.full(len(p.sequences), rarity(p.count, total) ** 2) for p in present])
    unique, inverse = np.unique(sequences, return_inverse=True)
    sums = np.bincount(inverse, weights=worths)
    best = np.lexsort((-unique, -sums))[:most]
    return list(zip(unique[best].tolist(), sums[best].tolist(), strict=True))


def _shares(listed: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Scale the scores of a list, best first, to 0 to 1."""
    if not listed:
        return []
    best, least = listed[0][1], listed[-1][1]
    return [(sequence, (score - least) / (best - least) if best > least else 1.0) for sequence, score in listed]
