"""Hybrid search: find candidates by lexical and semantic search, add their neighbors, and rank the messages."""

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
from nomemory.server.search.hybrid.candidate_pool import CandidatePool, CandidatePoolReader, LexicalCandidates
from nomemory.server.search.hybrid.hit import HybridHit
from nomemory.server.search.hybrid.query_analysis import ParsedQuestion, ParsedSentence, parse_question
from nomemory.server.search.hybrid.ranking import (
    MAX_RETRACTION_CHAIN,
    MatchScores,
    Ranking,
    add_context,
    apply_retractions,
    compute_bonus_scores,
    find_subject_indexes,
    rank_matches,
)
from nomemory.server.search.hybrid.related_messages import MAX_COMPARED, ComparedMessage, Relation, find_relations
from nomemory.server.search.hybrid.relevance_feedback import (
    MAX_DOCUMENT_FREQUENCY,
    FeedbackMessage,
    compute_feedback_scores,
    select_feedback,
)
from nomemory.server.search.hybrid.semantic_hits import SemanticHits
from nomemory.server.search.hybrid.semantic_scores import SemanticScores, compute_semantic_scores
from nomemory.server.search.hybrid.sufficiency import SufficiencyFeatures, estimate_sufficiency, names_single_speaker
from nomemory.server.search.hybrid.term_scores import TermScores, compute_term_scores
from nomemory.server.search.hybrid.weights import RankingWeights
from nomemory.server.search.lexical.protocol import LexicalIndex, Posting
from nomemory.server.search.reply_budget import count_fitting_messages, count_no_extra_bytes
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.search.speakers import SpeakerNameSampler
from nomemory.server.store.protocol import LogReader
from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.time_range import TimeRange

_SEMANTIC_UNAVAILABLE: Final = frozenset(
    {
        Reason.ERROR_REASON_EMBEDDER_DISABLED,
        Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE,
        Reason.ERROR_REASON_INDEX_UNAVAILABLE,
    }
)
_DECIMALS: Final = 6
"""Scores are rounded to this precision, because the order of floating-point additions can vary."""
_MAX_EXPLANATION_BYTES: Final = 300
"""Maximum size of an encoded explanation."""
_SHORT_QUESTION_CHARS: Final = 200
"""Questions up to this length are analyzed on the event loop, which takes less than a millisecond."""
_SentenceHits = tuple[ParsedSentence, SemanticHits | None]
"""A sentence and its semantic hits; None without semantic search."""
_MAX_PERIOD_HITS: Final = 128
"""Maximum number of semantic hits in each period that the question names."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """The parameters of a hybrid search: a question about a user's messages.

    Attributes:
        vector: the caller's embedding of the whole question; None: the server embeds each sentence.
        timeout_s: the timeout of the semantic search, in seconds.
        explain: whether the response includes explanations, which count towards its size.
        include_relations: whether to find relations between the results.
    """

    user_id: str
    text: str
    vector: Vector | None
    filter: Filter
    top_k: int
    timeout_s: float
    explain: bool = False
    include_relations: bool = False


@dataclass(frozen=True, slots=True)
class HybridResult:
    """The best messages, best first, with their sufficiency and relations.

    The fields correspond to those of `HybridSearchResponse`.
    """

    items: list[HybridHit]
    truncated: bool
    index_lagging: bool
    semantic_unavailable: bool
    sufficiency: float
    speaker_matched: bool
    sufficiency_lexical_only: bool = True
    empty_time_ranges: Sequence[TimeRange] = ()
    relations: Sequence[Relation] = ()


@dataclass(frozen=True, slots=True)
class _SentenceRanking:
    """The ranking of the messages for one sentence, with the match, lexical and semantic scores that it uses."""

    ranking: Ranking
    match_scores: Floats
    lexical: TermScores
    semantic: SemanticScores | None


@dataclass(frozen=True, slots=True)
class _FirstPassRanking:
    """The ranking for one sentence before relevance feedback, and the selected feedback messages."""

    ranked: _SentenceRanking
    feedback: Sequence[FeedbackMessage]

    @property
    def feedback_terms(self) -> set[str]:
        """The distinct terms of all feedback messages."""
        return {term for message in self.feedback for term in message.terms}


@dataclass(frozen=True, slots=True)
class HybridSearch:
    """Ranks the messages of one user by how well they answer a question.

    The event loop reads the data, and a thread computes the rankings.

    Attributes:
        slots: the limit of concurrent reads and rankings. A search holds no slot while it waits for semantic search.
        threads: the threads that compute the rankings.
        pools: the reader of the messages to rank.
        speaker_names: samples the authors if a user has too many messages to rank all of them.
        semantic_hits_max: the maximum number of semantic hits if all messages of the user are ranked.
    """

    slots: RoundRobinLimit
    threads: ReadThreads
    lexical: LexicalIndex
    log: LogReader
    pools: CandidatePoolReader
    speaker_names: SpeakerNameSampler
    weights: RankingWeights
    semantic_hits_max: int
    max_response_bytes: int

    async def search(self, space: VectorSpace, query: HybridQuery) -> HybridResult:
        """Return the messages that best answer a question.

        If semantic search is unavailable or times out, the ranking is lexical.

        Raises:
            Fault: INDEX_UNAVAILABLE: the lexical index cannot be read.
        """
        async with self.slots.slot(query.user_id):
            await self.lexical.refresh()
            counts = await self.log.count_users_and_messages(query.user_id)
            index_lagging = await self._is_lagging(space, query.user_id, counts.sequence)
            message_filter = await self.pools.drop_redundant_until(query.user_id, query.filter)
            total = await self.pools.count_messages(query.user_id, message_filter.until_us, counts)
            complete_pool = await self.pools.read_complete_pool(query.user_id, message_filter.until_us, counts, total)
            speakers = await self._read_speakers(query.user_id, message_filter.until_us, complete_pool)
            analysis = QuestionAnalysis(query.text, _choose_reference_time(query.filter))
            frequent_names = await self.pools.find_frequent_names(
                query.user_id, query.text, message_filter.until_us, total
            )
            question = await self._parse_question(analysis, speakers, frequent_names)
        periods = [narrow_to_period(message_filter, date_range) for date_range in question.date_ranges]
        hits_max = self.pools.candidates_max if complete_pool is None else self.semantic_hits_max
        nearest, candidates = await asyncio.gather(
            self._search_semantically(space, query, question, message_filter, periods, hits_max),
            self._read_candidates(query.user_id, message_filter, question, periods, complete_pool),
        )
        empty = tuple(
            date_range
            for date_range, messages in zip(question.date_ranges, candidates.messages_by_period, strict=True)
            if not messages
        )
        async with self.slots.slot(query.user_id):
            current_pool = complete_pool or await self.pools.read_pool(
                query.user_id, message_filter, nearest or [], candidates, total
            )
            pool = current_pool.truncate(query.filter.until_us)
            if not len(pool.timeline):
                return HybridResult(
                    [],
                    truncated=False,
                    index_lagging=index_lagging,
                    semantic_unavailable=nearest is None,
                    sufficiency=0.0,
                    speaker_matched=False,
                    empty_time_ranges=empty,
                )
            if pool.timeline.main_speakers != speakers:  # with many messages, `speakers` is only a sample
                question = await self._parse_question(analysis, pool.timeline.main_speakers, frequent_names)
            sentences = list(zip(question.sentences, nearest or (None,) * len(question.sentences), strict=True))
            rank = self._rank_short_timeline if pool.searches_messages else self._rank_long_timeline
            result = await rank(space.embedder.model, query, pool, question, sentences)
        result = replace(
            result, index_lagging=index_lagging, semantic_unavailable=nearest is None, empty_time_ranges=empty
        )
        if not query.include_relations:
            return result
        return replace(result, relations=await self._find_relations(space, query, pool.timeline, result.items))

    async def _read_speakers(
        self, user_id: str, until_us: int | None, complete_pool: CandidatePool | None
    ) -> tuple[str, ...]:
        """Return the names of the authors of messages before a time, or a sample of these names if there are many."""
        if complete_pool is not None:
            return complete_pool.timeline.main_speakers
        return await self.speaker_names.read_names(user_id, until_us)

    async def _read_candidates(
        self,
        user_id: str,
        message_filter: Filter,
        question: ParsedQuestion,
        periods: Sequence[Filter],
        complete_pool: CandidatePool | None,
    ) -> LexicalCandidates:
        """Read the candidates that need no vectors; only those of periods if all messages of the user are ranked."""
        async with self.slots.slot(user_id):
            if complete_pool is not None:
                return LexicalCandidates((), await self.pools.read_periods(user_id, periods))
            return await self.pools.read_candidates(user_id, message_filter, question, periods)

    async def _parse_question(
        self, analysis: QuestionAnalysis, speakers: Sequence[str], frequent_names: Sequence[str]
    ) -> ParsedQuestion:
        if len(analysis.text) <= _SHORT_QUESTION_CHARS:
            return parse_question(analysis, speakers, frequent_names)
        return await self.threads.run(parse_question, analysis, speakers, frequent_names)

    async def _rank_short_timeline(
        self,
        model: str,
        query: HybridQuery,
        pool: CandidatePool,
        question: ParsedQuestion,
        sentences: Sequence[_SentenceHits],
    ) -> HybridResult:
        """Rank few messages in a single worker-thread call, without reading the lexical index."""

        def rank_sentences() -> HybridResult:
            first_passes = [self._run_first_pass(pool, question, sentence, None) for sentence in sentences]
            ranked = [self._run_second_pass(pool, first_pass, None) for first_pass in first_passes]
            return self._build_result(model, query, pool.timeline, question, ranked)

        return await self.threads.run(rank_sentences)

    async def _rank_long_timeline(
        self,
        model: str,
        query: HybridQuery,
        pool: CandidatePool,
        question: ParsedQuestion,
        sentences: Sequence[_SentenceHits],
    ) -> HybridResult:
        """Rank many messages in two worker-thread calls, and read the feedback postings between the calls."""
        postings = [await self.pools.read_postings(query.user_id, pool, sentence.terms) for sentence, _ in sentences]
        first_passes = await self.threads.run(
            lambda: [self._run_first_pass(pool, question, *item) for item in zip(sentences, postings, strict=True)]
        )
        feedback_postings = [
            await self.pools.read_postings(
                query.user_id, pool, sorted(first_pass.feedback_terms), MAX_DOCUMENT_FREQUENCY
            )
            for first_pass in first_passes
        ]

        def rank_sentences() -> HybridResult:
            ranked = [self._run_second_pass(pool, *item) for item in zip(first_passes, feedback_postings, strict=True)]
            return self._build_result(model, query, pool.timeline, question, ranked)

        return await self.threads.run(rank_sentences)

    def _build_result(
        self,
        model: str,
        query: HybridQuery,
        timeline: Timeline,
        question: ParsedQuestion,
        ranked: Sequence[_SentenceRanking],
    ) -> HybridResult:
        """Select the best messages and estimate their sufficiency."""
        eligible = _select_eligible_indexes(timeline, ranked, query.filter)
        hits = _select_best_hits(timeline, ranked, eligible, query.top_k)
        extra_bytes = _estimate_explanation_bytes if query.explain else count_no_extra_bytes
        items = hits[: count_fitting_messages((hit.message for hit in hits), self.max_response_bytes, extra_bytes)]
        # If most messages have no author name, the question's person is rarely the author of the answer.
        persons = find_subject_indexes(question, timeline) if timeline.has_author_names else []
        current = eligible[~timeline.is_retracted[eligible]]
        features = _compute_sufficiency_features(model, timeline, ranked, current)
        return HybridResult(
            items,
            truncated=len(items) < len(hits),
            index_lagging=False,
            semantic_unavailable=False,
            sufficiency=estimate_sufficiency(features, persons, len(timeline.speakers)),
            speaker_matched=names_single_speaker(persons, len(timeline.speakers)),
            sufficiency_lexical_only=features.cosines is None,
        )

    async def _is_lagging(self, space: VectorSpace, user_id: str, latest: int) -> bool:
        lexical_lags = self.lexical.can_lag and await self.lexical.read_applied_sequence(user_id) < latest
        return lexical_lags or await space.progress.is_lagging(user_id, latest)

    async def _search_semantically(
        self,
        space: VectorSpace,
        query: HybridQuery,
        question: ParsedQuestion,
        message_filter: Filter,
        periods: Sequence[Filter],
        hits_max: int,
    ) -> list[SemanticHits] | None:
        """Run a semantic search for each sentence; return None if semantic search is unavailable or times out."""
        if not self.weights.meaning:
            return None
        try:
            async with asyncio.timeout(query.timeout_s):
                if query.vector is not None:
                    hits = await self._search_vector(space, query, query.text, message_filter, periods, hits_max)
                    return [hits] * len(question.sentences)
                searches = (
                    self._search_vector(space, query, sentence.embedding_text, message_filter, periods, hits_max)
                    for sentence in question.sentences
                )
                return list(await asyncio.gather(*searches))
        except TimeoutError:
            return None
        except Fault as fault:
            if fault.reason in _SEMANTIC_UNAVAILABLE:
                return None
            raise

    async def _search_vector(
        self,
        space: VectorSpace,
        query: HybridQuery,
        text: str,
        message_filter: Filter,
        periods: Sequence[Filter],
        hits_max: int,
    ) -> SemanticHits:
        """Search the whole range and each period with the caller's vector or, without one, the embedding of `text`."""
        vector = query.vector or await space.embed_query(query.user_id, text)
        overall_hits = await space.vectors.search(query.user_id, vector, message_filter, hits_max)
        period_hits = [
            hit
            for period in periods
            for hit in await space.vectors.search(query.user_id, vector, period, _MAX_PERIOD_HITS)
        ]
        return SemanticHits(overall_hits, len(overall_hits) < hits_max, period_hits)

    def _run_first_pass(
        self,
        pool: CandidatePool,
        question: ParsedQuestion,
        sentence_hits: _SentenceHits,
        postings: Mapping[str, Posting] | None,
    ) -> _FirstPassRanking:
        """Rank the candidate messages by matches, bonuses and context, and select feedback messages."""
        timeline, weights, (sentence, nearest) = pool.timeline, self.weights, sentence_hits
        occurrences = pool.find_occurrences(sentence.terms, postings)
        term_weights = dict.fromkeys(sentence.topic_terms, 1 + weights.topic)
        lexical = compute_term_scores(timeline, occurrences, pool.total, weights.neighbors, term_weights)
        semantic = None
        if nearest is not None:
            semantic = compute_semantic_scores(timeline, nearest, total=pool.total)
        match = rank_matches(
            MatchScores(None if semantic is None else semantic.normalized_cosines, lexical.scores), weights
        )
        ranking = add_context(
            timeline, match.add_components(**compute_bonus_scores(timeline, question, weights)), weights
        )
        excluded_terms = timeline.name_terms.keys() | set(sentence.terms)
        feedback = select_feedback(timeline, ranking.scores, excluded_terms) if weights.shared else []
        return _FirstPassRanking(_SentenceRanking(ranking, match.scores, lexical, semantic), feedback)

    def _run_second_pass(
        self, pool: CandidatePool, first_pass: _FirstPassRanking, postings: Mapping[str, Posting] | None
    ) -> _SentenceRanking:
        """Add the feedback scores and apply retractions. `postings` contains the postings of the feedback terms."""
        timeline, ranking = pool.timeline, first_pass.ranked.ranking
        if self.weights.shared:
            occurrences = pool.find_occurrences(sorted(first_pass.feedback_terms), postings)
            scores = compute_feedback_scores(timeline, first_pass.feedback, occurrences, pool.total)
            ranking = ranking.add_components(shared=self.weights.shared * scores)
        return replace(first_pass.ranked, ranking=apply_retractions(timeline, ranking))

    async def _find_relations(
        self, space: VectorSpace, query: HybridQuery, timeline: Timeline, items: Sequence[HybridHit]
    ) -> Sequence[Relation]:
        """Return the relations between the best messages; none if the vectors are unavailable."""
        messages = [item.message for item in items[:MAX_COMPARED]]
        try:
            async with asyncio.timeout(query.timeout_s):
                vectors = await space.vectors.read_vectors(query.user_id, [message.message_id for message in messages])
        except TimeoutError:
            return ()
        except Fault as fault:
            if fault.reason in _SEMANTIC_UNAVAILABLE:
                return ()
            raise
        return await self.threads.run(lambda: find_relations(_select_comparable_messages(timeline, messages), vectors))


def _compute_sufficiency_features(
    model: str, timeline: Timeline, ranked: Sequence[_SentenceRanking], indexes: Ints
) -> SufficiencyFeatures:
    """Return the sufficiency features of the messages at `indexes`, as maxima over all sentences."""
    semantic = [sentence.semantic for sentence in ranked if sentence.semantic]
    cosines = None
    if model == PACKAGE_MODEL and len(semantic) == len(ranked):
        cosines = np.max([scores.cosines for scores in semantic], axis=0)[indexes]
    has_terms = any(sentence.lexical.has_terms for sentence in ranked)
    coverage = np.max([sentence.lexical.coverage for sentence in ranked], axis=0)[indexes]
    return SufficiencyFeatures(
        match_scores=np.max([sentence.match_scores for sentence in ranked], axis=0)[indexes],
        cosines=cosines,
        coverage=coverage if has_terms else None,
        message_count=max((scores.count for scores in semantic), default=0),
        unknown_terms=min(sentence.lexical.unknown_share for sentence in ranked),
        is_assertion=_build_assertion_mask(timeline, indexes),
        speaker_indexes=timeline.speaker_indexes[indexes],
        ends_with_question=timeline.ends_with_question[indexes],
        get_text=lambda at: timeline.get_leading_text(int(indexes[at])),
    )


def _choose_reference_time(message_filter: Filter) -> datetime:
    """Return the reference time of a question: the end of the filter's time range; without one, the current time."""
    if message_filter.until_us is None:
        return datetime.now(UTC)
    return _EPOCH + timedelta(microseconds=message_filter.until_us)  # exact up to the latest representable time


def _estimate_explanation_bytes(_message: LoggedMessage) -> int:
    return _MAX_EXPLANATION_BYTES


def _select_comparable_messages(timeline: Timeline, messages: Sequence[LoggedMessage]) -> list[ComparedMessage]:
    indexes, _ = timeline.locate_versions(np.array([message.sequence for message in messages], dtype=np.int64))
    return [
        ComparedMessage(
            message,
            (int(timeline.roles[index]), timeline.features[index].name),
            frozenset(timeline.get_leading_terms(index)),
        )
        for message, index in zip(messages, indexes.tolist(), strict=True)
    ]


def _build_assertion_mask(timeline: Timeline, indexes: Ints) -> Flags:
    """Return a mask of messages with an assertion by the user, or by any author if the messages have author names."""
    by_people = (
        np.ones(len(timeline), dtype=np.bool_) if timeline.has_author_names else timeline.build_role_mask(Role.USER)
    )
    asserting: Flags = (by_people & ~timeline.lacks_assertion)[indexes]
    return asserting


def _select_eligible_indexes(timeline: Timeline, ranked: Sequence[_SentenceRanking], message_filter: Filter) -> Ints:
    """Return the indexes of messages that pass the filter, and either match a sentence or retract a matching message.

    Terms in a neighbor affect the score of a message, but they do not make the message match.
    """
    matches = np.zeros(len(timeline), dtype=np.bool_)
    for sentence in ranked:
        matches |= sentence.lexical.coverage > 0
        if sentence.semantic is not None:
            matches |= sentence.semantic.is_hit > 0
    admitted = timeline.build_filter_mask(message_filter)
    matches &= admitted
    retracted, retracting = timeline.retraction_pairs
    for _ in range(MAX_RETRACTION_CHAIN if len(retracted) else 0):
        np.logical_or.at(matches, retracting, matches[retracted])
    return np.flatnonzero(matches & admitted)


def _select_best_hits(
    timeline: Timeline, ranked: Sequence[_SentenceRanking], eligible: Ints, top_k: int
) -> list[HybridHit]:
    """Return the best messages. The scores of a message are those for the sentence that gives the highest score."""
    scores = np.round(np.stack([sentence.ranking.scores[eligible] for sentence in ranked]), _DECIMALS)
    best_scores, best_sentences = scores.max(axis=0), scores.argmax(axis=0)
    order = np.lexsort((-eligible, -best_scores))[:top_k]
    indexes, ordered_scores = eligible[order], best_scores[order].tolist()
    by_sentence = [_build_hits(timeline, indexes, ordered_scores, sentence) for sentence in ranked]
    return [by_sentence[sentence][rank] for rank, sentence in enumerate(best_sentences[order].tolist())]


def _build_hits(
    timeline: Timeline, indexes: Ints, scores: Sequence[float], ranked: _SentenceRanking
) -> list[HybridHit]:
    """Return the messages at `indexes` as hits for one sentence."""
    zeros = np.zeros(len(timeline))
    cosines = zeros if ranked.semantic is None else ranked.semantic.cosines
    z_scores = zeros if ranked.semantic is None else ranked.semantic.z_scores
    components = ranked.ranking.components
    arrays = (cosines, ranked.lexical.scores, ranked.lexical.coverage, z_scores)
    component_rows = zip(*(values[indexes].tolist() for values in components.values()), strict=True)
    return list(
        map(
            HybridHit,
            map(timeline.logged.__getitem__, indexes.tolist()),
            scores,
            *(values[indexes].tolist() for values in arrays),
            (dict(zip(components, row, strict=True)) for row in component_rows),
        )
    )
