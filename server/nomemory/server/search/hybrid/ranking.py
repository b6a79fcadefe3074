"""Rank the candidate messages for one sentence by matches, authors, dates, and adjacent messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from nomemory.server.message import Role
from nomemory.server.search.hybrid.candidate_messages import Flags, Floats, Timeline
from nomemory.server.search.hybrid.query_analysis import ParsedQuestion
from nomemory.server.search.hybrid.weights import RankingWeights
from nomemory.text.time_range import TimeRange

_BEST_OF_CONVERSATION: Final = 2
_MAX_CONVERSATION_SHARE: Final = 0.5
"""A conversation with a larger share of the messages gets no conversation score."""


_DAY_US: Final = 86_400e6
_DECAY_DAYS_AFTER: Final = 7.0
"""Days after a date at which the date score has decayed to 1/e: people talk about an event for some days."""


_DECAY_DAYS_BEFORE: Final = 1.0
_LONG_RANGE_DAYS: Final = 300.0
"""Longer ranges, such as a year, get half of the date score."""


_OUTSIDE: Final = 0.6
"""Date score of a message just outside a range; inside it is 1."""
_HALF: Final = 0.5
MAX_RETRACTION_CHAIN: Final = 8
"""Maximum length of a chain of retractions that is followed."""


_RETRACTION_PENALTY: Final = 0.1
"""Score difference between a retracted message and the message that retracts it."""


@dataclass(frozen=True, slots=True)
class MatchScores:
    """Match scores of the messages for one sentence: semantic, 0 to 1 (None without semantic search), and lexical."""

    semantic: Floats | None
    lexical: Floats


@dataclass(frozen=True, slots=True)
class Ranking:
    """A score for each candidate message, and the components that add up to it."""

    scores: Floats
    components: Mapping[str, Floats]

    def normalize(self) -> Ranking:
        """Return the ranking, scaled so that the maximum score is 1."""
        best = float(self.scores.max(initial=0.0))
        if best <= 0:
            return self
        return build_ranking({name: values / best for name, values in self.components.items()})

    def add_components(self, **components: Floats) -> Ranking:
        """Return the ranking with additional components."""
        return build_ranking({**self.components, **components})


def build_ranking(components: Mapping[str, Floats]) -> Ranking:
    """Return a ranking whose scores are the sums of the components."""
    return Ranking(reduce(np.add, components.values()), components)


def rank_matches(match: MatchScores, weights: RankingWeights) -> Ranking:
    """Return a ranking by the match scores only."""
    lexical = _normalize_scores(match.lexical)
    if match.semantic is None or not weights.meaning:
        return build_ranking({"words": lexical})
    return build_ranking({"meaning": weights.meaning * match.semantic, "words": (1 - weights.meaning) * lexical})


def compute_bonus_scores(timeline: Timeline, question: ParsedQuestion, weights: RankingWeights) -> Mapping[str, Floats]:
    """Return the score components other than the match scores: author, dates, time cues and concrete content."""
    components: dict[str, Floats] = {
        "speaker": np.where(build_subject_mask(timeline, question), weights.speaker, 0.0),
        "concrete": np.where(timeline.has_concrete_content, weights.concrete, 0.0),
    }
    if question.date_ranges:
        scores = [_compute_date_scores(timeline, date_range) for date_range in question.date_ranges]
        components["dates"] = weights.dates * np.max(scores, axis=0)
    if question.analysis.asks_for_time:
        components["occasion"] = weights.occasion * timeline.time_cues
    return components


def add_context(timeline: Timeline, base: Ranking, weights: RankingWeights) -> Ranking:
    """Add score components for the context of each message: a preceding question, neighbors, and the conversation."""
    base = base.normalize()
    scores = base.scores
    return base.add_components(
        answers=weights.answers * _compute_preceding_question_scores(timeline, scores),
        asks=np.where(timeline.lacks_assertion, -weights.asks, 0.0),
        around=weights.around * _compute_window_means(timeline, scores),
        conversation=weights.conversation * _compute_conversation_scores(timeline, scores),
    ).normalize()


def apply_retractions(timeline: Timeline, base: Ranking) -> Ranking:
    """Rank each retracted message below its retracting message, which gets the higher of the two scores."""
    if not timeline.is_retracted.any():
        return base
    retracted, retracting = timeline.retraction_pairs
    scores, penalties = base.scores.copy(), timeline.is_retracted.astype(np.float64)
    for _ in range(MAX_RETRACTION_CHAIN):
        np.maximum.at(scores, retracting, scores[retracted])
        np.maximum.at(penalties, retracted, penalties[retracting] + 1)
    return base.add_components(retracts=scores - base.scores, retracted=-_RETRACTION_PENALTY * penalties)


def build_subject_mask(timeline: Timeline, question: ParsedQuestion) -> Flags:
    """Return a mask of the messages by the person that the question is about; all False if the person is unknown."""
    if question.persons:
        sent = np.isin(timeline.speaker_indexes, find_subject_indexes(question, timeline))
        by_user = timeline.build_role_mask(Role.USER)
        is_user_name = not timeline.has_author_names and bool(sent.any()) and not bool((sent & ~by_user).any())
        return by_user if is_user_name else sent
    if question.asks_about_user and (question.analysis.has_first_person or not timeline.has_author_names):
        return timeline.build_role_mask(Role.USER)
    if question.asks_about_assistant and not timeline.has_author_names:
        return timeline.build_role_mask(Role.ASSISTANT)
    return np.zeros(len(timeline), dtype=np.bool_)


def find_subject_indexes(question: ParsedQuestion, timeline: Timeline) -> list[int]:
    """Return the indexes in `timeline.speakers` of the persons that a question names."""
    return [index for index, name in enumerate(timeline.speakers) if name in question.persons]


def _compute_date_scores(timeline: Timeline, dates: TimeRange) -> Floats:
    since = dates.since.timestamp() * 1e6 if dates.since else -np.inf
    until = dates.until.timestamp() * 1e6 if dates.until else np.inf
    early = np.maximum(since - timeline.ts_us, 0) / _DAY_US
    late = np.maximum(timeline.ts_us - until, 0) / _DAY_US
    scores: Floats = np.exp(-early / _DECAY_DAYS_BEFORE) * np.exp(-late / _DECAY_DAYS_AFTER)
    outside = (early > 0) | (late > 0)
    scores = np.where(outside, _OUTSIDE * scores, scores)
    return scores * (_HALF if (until - since) / _DAY_US > _LONG_RANGE_DAYS else 1.0)


def _compute_preceding_question_scores(timeline: Timeline, scores: Floats) -> Floats:
    previous = timeline.previous_indexes
    follows_question = (previous >= 0) & timeline.ends_with_question[previous]
    return np.where(follows_question, scores[previous], 0.0)


def _compute_window_means(timeline: Timeline, scores: Floats) -> Floats:
    """Return the mean score of the context window around each message, as an estimate of the topic's score."""
    means, (first, end) = np.zeros(len(timeline)), timeline.window_bounds
    sums = np.concatenate([[0.0], np.cumsum(scores[timeline.conversation_order])])
    means[timeline.conversation_order] = (sums[end] - sums[first]) / (end - first)
    return means


def _compute_conversation_scores(timeline: Timeline, scores: Floats) -> Floats:
    """Return, for each message, the mean score of the two best messages in the same conversation."""
    result, sizes, conversations = (
        np.zeros(len(timeline)),
        timeline.conversation_sizes,
        timeline.ordered_conversation_numbers,
    )
    ordered = scores[timeline.conversation_order]
    ordered = ordered[np.lexsort((-ordered, conversations))]
    is_scored = (sizes >= _BEST_OF_CONVERSATION) & (sizes < _MAX_CONVERSATION_SHARE * len(timeline))
    first = np.cumsum(sizes)[is_scored] - sizes[is_scored]
    means = np.zeros(len(sizes))
    means[is_scored] = np.mean([ordered[first + rank] for rank in range(_BEST_OF_CONVERSATION)], axis=0)
    result[timeline.conversation_order] = means[conversations]
    return result


def _normalize_scores(values: Floats) -> Floats:
    best = float(values.max(initial=0.0))
    return values / best if best > 0 else values
