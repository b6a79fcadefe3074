"""The hybrid search: finds candidates by words and by meaning, reads the messages around them, and ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from nomemory.server.embedding.local_model import PACKAGE_MODEL
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import LoggedMessage, Role
from nomemory.server.message_filter import Filter, narrow_to_period
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.search.hybrid.candidate_messages import Flags, Floats, Ints, Timeline
from nomemory.server.search.hybrid.candidate_pool import CandidatePool, CandidatePools
from nomemory.server.search.hybrid.hit import HybridHit
from nomemory.server.search.hybrid.nearest import NearestMessages
from nomemory.server.search.hybrid.query_analysis import ParsedQuestion, ParsedSentence, parsed
from nomemory.server.search.hybrid.ranking import (
    CHAIN,
    Match,
    Ranking,
    corrected,
    in_talk,
    matched,
    places_of,
    preferred,
)
from nomemory.server.search.hybrid.related_messages import LOOKED_AT, Related, Relation, relations
from nomemory.server.search.hybrid.relevance_feedback import RARE, Leader, leaders, shared
from nomemory.server.search.hybrid.semantic_scores import Meaning, meaning_of
from nomemory.server.search.hybrid.sufficiency import Candidates, speaker_matched, sufficiency
from nomemory.server.search.hybrid.term_scores import WordScores, word_scores
from nomemory.server.search.hybrid.weights import Weights
from nomemory.server.search.lexical.protocol import LexicalIndex, Posting
from nomemory.server.search.reply_budget import fitting, nothing_beside
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.store.protocol import LogReader
from nomemory.text.question_reading import QuestionReading
from nomemory.text.time_range import TimeRange

_WITHOUT_MEANING: Final = frozenset(
    {
        Reason.ERROR_REASON_EMBEDDER_DISABLED,
        Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE,
        Reason.ERROR_REASON_INDEX_UNAVAILABLE,
    }
)
_DECIMALS: Final = 6
"""Scores that differ less are equal: sums of floats may come in any order."""
_EXPLANATION_BYTES: Final = 300
"""Most bytes of an explanation in a reply."""
_SHORT_QUESTION_CHARS: Final = 200
"""Longest question that is parsed on the event loop, in less than a millisecond."""
_Sentence = tuple[ParsedSentence, NearestMessages | None]
"""A sentence that asks, and the nearest messages; None where meaning has no part."""
_PERIOD_HITS: Final = 128
"""Nearest messages within each period that a question names."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """A question about a user's messages.

    `vector` is the caller's own of the whole question. `patience_s` is how long meaning is waited for. `explains` keeps
    room for explanations in the reply. `relates` asks which of the messages speak of the same thing.
    """

    user_id: str
    text: str
    vector: Vector | None
    narrowed: Filter
    top_k: int
    patience_s: float
    explains: bool = False
    relates: bool = False


@dataclass(frozen=True, slots=True)
class HybridAnswer:
    """The best messages, best first. `by_words`: nearness in meaning has no part in `sufficiency`."""

    items: list[HybridHit]
    truncated: bool
    behind: bool
    semantic_unavailable: bool
    sufficiency: float
    speaker_matched: bool
    by_words: bool = True
    empty_time_ranges: Sequence[TimeRange] = ()
    relations: Sequence[Relation] = ()


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A sentence's ranking of a timeline, and its parts. `matching` scores without any preference for a speaker."""

    ranking: Ranking
    matching: Floats
    words: WordScores
    meaning: Meaning | None


@dataclass(frozen=True, slots=True)
class _Matched:
    """A sentence's ranking before the best messages are followed, and these messages."""

    ranked: _Ranked
    leaders: Sequence[Leader]

    @property
    def terms_of_leaders(self) -> set[str]:
        """The terms of the best messages."""
        return {term for leader in self.leaders for term in leader.terms}


@dataclass(frozen=True, slots=True)
class HybridMessages:
    """Ranks one user's messages by how well they answer a question.

    Data is fetched on the event loop, and ranked in a thread.

    Attributes:
        slots: held while it reads or ranks, not while it waits for meaning.
        threads: rank.
        words: the lexical index.
        log: where the messages are.
        pools: reads the messages that are ranked.
        weights: of the ranking's steps.
        candidates_max: how many messages each of words and meaning proposes.
        max_response_bytes: where a reply ends early.
    """

    slots: RoundRobinLimit
    threads: ReadThreads
    words: LexicalIndex
    log: LogReader
    pools: CandidatePools
    weights: Weights
    candidates_max: int
    max_response_bytes: int

    async def search(self, space: VectorSpace, query: HybridQuery) -> HybridAnswer:
        """Rank, with the meaning of one space.

        Raises:
            Fault: INDEX_UNAVAILABLE, the lexical index cannot be read. Without meaning the words decide alone.
        """
        async with self.slots.slot(query.user_id):
            await self.words.refresh()
            counts = await self.log.counts(query.user_id)
            behind = await self._behind(space, query.user_id, counts.sequence)
            narrowed = await self.pools.open_ended(query.user_id, query.narrowed)
            speakers = await self.pools.speakers(query.user_id, narrowed.until_us, counts)
            reading = QuestionReading(query.text, _now(query.narrowed))
            asked = await self._parsed(reading, speakers)
        periods = [narrow_to_period(narrowed, date_range) for date_range in asked.date_ranges]
        nearest = await self._nearest(space, query, asked, narrowed, periods)
        async with self.slots.slot(query.user_id):
            by_period = [await self.pools.messages_in_period(query.user_id, period) for period in periods]
            empty = tuple(
                date_range for date_range, messages in zip(asked.date_ranges, by_period, strict=True) if not messages
            )
            in_periods = [message for messages in by_period for message in messages]
            read_meanwhile = await self.pools.read(query.user_id, narrowed, asked, nearest or [], counts, in_periods)
            pool = read_meanwhile.before(query.narrowed.until_us)
            if not len(pool.timeline):
                return HybridAnswer(
                    [],
                    truncated=False,
                    behind=behind,
                    semantic_unavailable=nearest is None,
                    sufficiency=0.0,
                    speaker_matched=False,
                    empty_time_ranges=empty,
                )
            if pool.timeline.foremost != speakers:  # of many messages, only now is it known who speaks
                asked = await self._parsed(reading, pool.timeline.foremost)
            sentences = list(zip(asked.sentences, nearest or (None,) * len(asked.sentences), strict=True))
            rank = self._rank_short if pool.reads_messages else self._rank_with_index
            answer = await rank(space.embedder.model, query, pool, asked, sentences)
        answer = replace(answer, behind=behind, semantic_unavailable=nearest is None, empty_time_ranges=empty)
        if not query.relates:
            return answer
        return replace(answer, relations=await self._relations(space, query, pool.timeline, answer.items))

    async def _parsed(self, reading: QuestionReading, speakers: Sequence[str]) -> ParsedQuestion:
        if len(reading.text) <= _SHORT_QUESTION_CHARS:
            return parsed(reading, speakers)
        return await self.threads.run(parsed, reading, speakers)

    async def _rank_short(
        self, model: str, query: HybridQuery, pool: CandidatePool, asked: ParsedQuestion, sentences: Sequence[_Sentence]
    ) -> HybridAnswer:
        """Rank a short log in one go: no index has to be asked for postings."""

        def rank() -> HybridAnswer:
            matched = [self._match(pool, asked, sentence, None) for sentence in sentences]
            ranked = [self._follow(pool, match, None) for match in matched]
            return self._answer(model, query, pool.timeline, asked, ranked)

        return await self.threads.run(rank)

    async def _rank_with_index(
        self, model: str, query: HybridQuery, pool: CandidatePool, asked: ParsedQuestion, sentences: Sequence[_Sentence]
    ) -> HybridAnswer:
        """Rank in two steps. Each needs the postings of other terms."""
        postings = [await self.pools.postings(query.user_id, pool, sentence.terms) for sentence, _ in sentences]
        matched = await self.threads.run(
            lambda: [self._match(pool, asked, *item) for item in zip(sentences, postings, strict=True)]
        )
        further = [
            await self.pools.postings(query.user_id, pool, sorted(match.terms_of_leaders), RARE) for match in matched
        ]

        def finish() -> HybridAnswer:
            ranked = [self._follow(pool, *item) for item in zip(matched, further, strict=True)]
            return self._answer(model, query, pool.timeline, asked, ranked)

        return await self.threads.run(finish)

    def _answer(
        self, model: str, query: HybridQuery, timeline: Timeline, asked: ParsedQuestion, ranked: Sequence[_Ranked]
    ) -> HybridAnswer:
        """Choose the best messages, and rate whether they answer the question."""
        eligible = _eligible(timeline, ranked, query.narrowed)
        hits = _best(timeline, ranked, eligible, query.top_k)
        beside = _explanation if query.explains else nothing_beside
        items = hits[: fitting((hit.message for hit in hits), self.max_response_bytes, beside)]
        persons = places_of(asked, timeline)
        holding = eligible[~timeline.retracted[eligible]]
        candidates = _candidates(model, timeline, ranked, holding)
        return HybridAnswer(
            items,
            truncated=len(items) < len(hits),
            behind=False,
            semantic_unavailable=False,
            sufficiency=sufficiency(candidates, persons, len(timeline.speakers)),
            speaker_matched=speaker_matched(persons, len(timeline.speakers)),
            by_words=candidates.cosines is None,
        )

    async def _behind(self, space: VectorSpace, user_id: str, latest: int) -> bool:
        of_words = self.words.lags and await self.words.applied(user_id) < latest
        return of_words or await space.progress.behind(user_id, latest)

    async def _nearest(
        self,
        space: VectorSpace,
        query: HybridQuery,
        asked: ParsedQuestion,
        narrowed: Filter,
        periods: Sequence[Filter],
    ) -> list[NearestMessages] | None:
        """Search by meaning, sentence by sentence; None if that cannot be done, or not in time."""
        if not self.weights.meaning:
            return None
        try:
            async with asyncio.timeout(query.patience_s):
                if query.vector is not None:
                    return [await self._near(space, query, query.text, narrowed, periods)] * len(asked.sentences)
                sentences = (
                    self._near(space, query, sentence.meaning, narrowed, periods) for sentence in asked.sentences
                )
                return list(await asyncio.gather(*sentences))
        except TimeoutError:
            return None
        except Fault as fault:
            if fault.reason in _WITHOUT_MEANING:
                return None
            raise

    async def _near(
        self, space: VectorSpace, query: HybridQuery, text: str, narrowed: Filter, periods: Sequence[Filter]
    ) -> NearestMessages:
        """Search by the meaning of a text, or by the caller's own vector, overall and in each period."""
        vector = query.vector or await space.embed_query(query.user_id, text)
        overall = await space.vectors.search(query.user_id, vector, narrowed, self.candidates_max)
        in_periods = [
            hit for period in periods for hit in await space.vectors.search(query.user_id, vector, period, _PERIOD_HITS)
        ]
        return NearestMessages(overall, in_periods)

    def _match(
        self, pool: CandidatePool, asked: ParsedQuestion, asking: _Sentence, postings: Mapping[str, Posting] | None
    ) -> _Matched:
        """Rank by what matches a sentence, by who speaks, and by the talk around."""
        timeline, weights, (sentence, nearest) = pool.timeline, self.weights, asking
        found = pool.found(sentence.terms, postings)
        emphasis = dict.fromkeys(sentence.topic, 1 + weights.topic)
        words = word_scores(timeline, found, pool.total, weights.beside, emphasis)
        complete = nearest is not None and len(nearest.overall) < self.candidates_max
        meaning = None if nearest is None else meaning_of(timeline, nearest, complete=complete, total=pool.total)
        match = Match(None if meaning is None else meaning.nearness, words.scores)
        matching = matched(match, weights)
        ranking = in_talk(timeline, matching.plus(**preferred(timeline, asked, weights)), weights)
        known = timeline.bearers.keys() | set(sentence.terms)
        followed = leaders(timeline, ranking.scores, known) if weights.shared else []
        return _Matched(_Ranked(ranking, matching.scores, words, meaning), followed)

    def _follow(self, pool: CandidatePool, matching: _Matched, postings: Mapping[str, Posting] | None) -> _Ranked:
        """Rank again, with what messages share with the best ones, given the postings of the terms of these."""
        timeline, ranking = pool.timeline, matching.ranked.ranking
        if self.weights.shared:
            found = pool.found(sorted(matching.terms_of_leaders), postings)
            followed = shared(timeline, matching.leaders, found, pool.total)
            ranking = ranking.plus(shared=self.weights.shared * followed)
        return replace(matching.ranked, ranking=corrected(timeline, ranking))

    async def _relations(
        self, space: VectorSpace, query: HybridQuery, timeline: Timeline, items: Sequence[HybridHit]
    ) -> Sequence[Relation]:
        """Relate the best messages; none where meaning cannot be had."""
        messages = [item.message for item in items[:LOOKED_AT]]
        try:
            async with asyncio.timeout(query.patience_s):
                vectors = await space.vectors.vectors(query.user_id, [message.message_id for message in messages])
        except TimeoutError:
            return ()
        except Fault as fault:
            if fault.reason in _WITHOUT_MEANING:
                return ()
            raise
        return await self.threads.run(lambda: relations(_related(timeline, messages), vectors))


def _candidates(model: str, timeline: Timeline, ranked: Sequence[_Ranked], eligible: Ints) -> Candidates:
    """Gather the features of sufficiency; for several sentences, the best of each."""
    cosines = None
    if model == PACKAGE_MODEL and all(message.meaning for message in ranked):
        cosines = np.max([message.meaning.cosines for message in ranked if message.meaning], axis=0)[eligible]
    usual = max(
        (message.meaning for message in ranked if message.meaning), key=lambda meaning: meaning.mean, default=None
    )
    has_words = any(message.words.has_terms for message in ranked)
    coverage = np.max([message.words.coverage for message in ranked], axis=0)[eligible]
    return Candidates(
        matching=np.max([message.matching for message in ranked], axis=0)[eligible],
        cosines=cosines,
        mean=usual.mean if usual else 0.0,
        count=usual.count if usual else 0,
        coverage=coverage if has_words else None,
        unknown=min(message.words.unknown for message in ranked),
        asserting=_asserting(timeline, eligible),
        spoken_by=timeline.spoken_by[eligible],
        asking=timeline.asking[eligible],
        text_of=lambda at: timeline.text_at(int(eligible[at])),
    )


def _now(narrowed: Filter) -> datetime:
    """Return the time that a question is relative to: the end of the filter's range, else the clock's."""
    if narrowed.until_us is None:
        return datetime.now(UTC)
    return _EPOCH + timedelta(microseconds=narrowed.until_us)  # exact, up to the calendar's last microsecond


def _explanation(_message: LoggedMessage) -> int:
    return _EXPLANATION_BYTES


def _related(timeline: Timeline, messages: Sequence[LoggedMessage]) -> list[Related]:
    places, _ = timeline.located(np.array([message.sequence for message in messages], dtype=np.int64))
    return [
        Related(
            item,
            (int(timeline.roles[place]), timeline.features[place].name),
            frozenset(timeline.beginning_terms_at(place)),
        )
        for item, place in zip(messages, places.tolist(), strict=True)
    ]


def _asserting(timeline: Timeline, eligible: Ints) -> Flags:
    """Mark the messages in which the user, or any speaker where they have names, says more than a question."""
    by_people = np.ones(len(timeline), dtype=np.bool_) if timeline.is_named else timeline.by(Role.USER)
    asserting: Flags = (by_people & ~timeline.saying_little)[eligible]
    return asserting


def _eligible(timeline: Timeline, ranked: Sequence[_Ranked], narrowed: Filter) -> Ints:
    """Return the places of messages that match, or take back what matches.

    The messages around one may rank it, but cannot make it match.
    """
    matches = np.zeros(len(timeline), dtype=np.bool_)
    for message in ranked:
        matches |= message.words.coverage > 0
        if message.meaning is not None:
            matches |= message.meaning.found > 0
    within = timeline.within(narrowed)
    matches &= within
    taken, takers = timeline.retractions
    for _ in range(CHAIN if len(taken) else 0):
        np.logical_or.at(matches, takers, matches[taken])
    return np.flatnonzero(matches & within)


def _best(timeline: Timeline, ranked: Sequence[_Ranked], eligible: Ints, top_k: int) -> list[HybridHit]:
    """Return the best messages, each at the sentence that it answers best."""
    scores = np.round(np.stack([message.ranking.scores[eligible] for message in ranked]), _DECIMALS)
    most, of_sentence = scores.max(axis=0), scores.argmax(axis=0)
    order = np.lexsort((-eligible, -most))[:top_k]
    places, best = eligible[order], most[order].tolist()
    by_sentence = [_hits(timeline, places, best, message) for message in ranked]
    return [by_sentence[sentence][at] for at, sentence in enumerate(of_sentence[order].tolist())]


def _hits(timeline: Timeline, places: Ints, scores: Sequence[float], ranked: _Ranked) -> list[HybridHit]:
    """Return the messages at some places as one sentence ranks them: all numbers are taken out of an array at once."""
    nowhere = np.zeros(len(timeline))
    cosines = nowhere if ranked.meaning is None else ranked.meaning.cosines
    deviations = nowhere if ranked.meaning is None else ranked.meaning.deviations
    components = ranked.ranking.components
    numbers = (cosines, ranked.words.scores, ranked.words.coverage, deviations)
    parts = zip(*(values[places].tolist() for values in components.values()), strict=True)
    return list(
        map(
            HybridHit,
            map(timeline.logged.__getitem__, places.tolist()),
            scores,
            *(values[places].tolist() for values in numbers),
            (dict(zip(components, part, strict=True)) for part in parts),
        )
    )
