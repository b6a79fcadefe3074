"""Rank the evidence of one recall. Results of other searches rank below the results of HybridSearch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from nomemory.recall.grounding.assertions import can_answer_question, have_sender_names
from nomemory.recall.model.evidence import Evidence, RetrievedMessage
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.skills.steering.defaults import SkillDefaults
from nomemory.recall.tools.definitions import HYBRID_SEARCH, LEXICAL_SEARCH, MESSAGES_LIST, NEIGHBORS, SEMANTIC_SEARCH
from nomemory.recall.tools.result import Hit, ToolResult

MAX_REORDERED: Final = 20
"""Number of top messages among which assertions are moved ahead of other messages."""
_BEST_SCORE: Final = 3.0
_SIMILARITY_WEIGHT: Final = 0.1
"""Weight of one standard deviation of similarity, relative to the best score; measured in docs/quality.md."""
_RECENCY_BOOST: Final = 0.3
_RECENCY_MESSAGES: Final = 6
"""Score boost of the newest message over the oldest, and the number of top messages that are boosted."""
_TOOL_WEIGHTS: Final = {SEMANTIC_SEARCH: 0.6, LEXICAL_SEARCH: 0.4, MESSAGES_LIST: 0.2}
_SKILL_WEIGHT: Final = 1.5
"""Weight of additional queries, relative to a ranking of the whole question."""
_PREFERENCE_BOOST: Final = 0.15
"""Score boost for messages with the preferred role, and for messages in the preferred time range."""
_SCORE_GAP: Final = 1.0
"""Gap between the lowest score of the question's ranking and the scores of other searches."""
_RANK_SMOOTHING: Final = 10
_CONVERSATION_SMOOTHING: Final = 3
"""Constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009). A small value favors the top ranks."""
_DECIMALS: Final = 9
_NO_DEFAULTS: Final = SkillDefaults()


class _WeightedTool(NamedTuple):
    """A search tool, and the weight of the query: 1 for the question, less for an additional query."""

    tool: str
    weight: float


@dataclass(slots=True)
class _MergedRanking:
    """Rankings of the question in several scopes, merged into one. Scores of the first scope take precedence."""

    scores: dict[str, float] = field(default_factory=dict)
    semantic_z_scores: dict[str, float] = field(default_factory=dict)

    def add_ranking(self, hits: Iterable[Hit]) -> None:
        """Add the ranking of another scope. New messages get at most the lowest score so far."""
        lowest_score = min(self.scores.values(), default=math.inf)
        for hit in hits:
            self.scores.setdefault(hit.message.message_id, min(hit.score, lowest_score))
            self.semantic_z_scores.setdefault(hit.message.message_id, hit.semantic_z_score)


class EvidenceRanking:
    """Ranks the evidence of one recall from the results of all search calls.

    Args:
        question: the question with the caller's preferred role and time range.
        defaults: the skill's defaults, whose role is preferred if the caller has no preference.
    """

    def __init__(self, question: Question, defaults: SkillDefaults = _NO_DEFAULTS) -> None:
        self._question = question
        self._role = question.role or defaults.role or Role.ANY
        self._preferred_scope = SearchScope(question.time_range) if question.time_range is not None else None
        self._question_ranking = _MergedRanking()
        self._tool_scores: dict[_WeightedTool, dict[str, float]] = {}
        self._messages: dict[str, RetrievedMessage] = {}
        self._answers_question: dict[str, bool] = {}
        self._ranked: tuple[bool, tuple[Evidence, ...]] | None = None

    def add_result(self, tool: str, result: ToolResult, weight: float = 1.0) -> None:
        """Add the result of a tool call. A weight below 1 marks an additional query."""
        for hit in result.items:
            self._messages.setdefault(hit.message.message_id, hit.message)
        self._ranked = None
        if tool == NEIGHBORS:
            return  # These results have no scores.
        if tool == HYBRID_SEARCH:
            self._question_ranking.add_ranking(result.items)
        elif tool in _TOOL_WEIGHTS:  # a planner may call an unknown tool, which returns no items
            _keep_best_scores(
                self._tool_scores.setdefault(_WeightedTool(tool, weight), {}), _normalize_scores(tool, result.items)
            )

    def rank_evidence(self) -> tuple[Evidence, ...]:
        """Return the evidence, best first. Equal scores are sorted by time, then by message id, both descending.

        In conversations with an assistant, messages that are semantically similar to the question or assert something
        rank higher. If the question asks for the current state, newer messages also rank higher. In conversations
        between named people, the order of HybridSearch is kept. If the input is a conversation rather than a question,
        the hybrid and the semantic ranking have equal weights.
        """
        keeps_order = self._question.is_conversation or have_sender_names(self._messages.values())
        if self._ranked is None or self._ranked[0] is not keeps_order:
            ordered = sorted(
                self._build_evidence(0.0 if keeps_order else _SIMILARITY_WEIGHT), key=_build_sort_key, reverse=True
            )
            evidence = ordered if keeps_order else self._boost_latest_messages(self._move_assertions_first(ordered))
            self._ranked = keeps_order, tuple(self._move_corrections_first(evidence))
        return self._ranked[1]

    def _move_corrections_first(self, evidence: list[Evidence]) -> list[Evidence]:
        """Move each correction before the message that it corrects, and give it at least the same score."""
        by_id = {item.message.message_id: item for item in evidence}
        ordered: dict[str, Evidence] = {}
        for item in evidence:
            corrected, chain = item, {item.message.message_id: item}
            while message := self._messages.get(corrected.message.retracted_by):
                if message.message_id in chain or message.message_id in ordered:
                    break
                correction = by_id.get(message.message_id, Evidence(message, 0.0))
                corrected = chain[message.message_id] = replace(
                    correction, score=max(correction.score, corrected.score)
                )
            for message_id in reversed(chain):
                ordered.setdefault(message_id, chain[message_id])
        return list(ordered.values())

    def _build_evidence(self, similarity_weight: float) -> list[Evidence]:
        scores, z_scores = self._combine_scores(), self._question_ranking.semantic_z_scores
        best_score = max(scores.values(), default=0.0)
        score_factor = _BEST_SCORE / best_score if best_score > 0 else 1.0
        return [
            Evidence(
                self._messages[message_id],
                score_factor * score + similarity_weight * z_scores.get(message_id, 0.0),
                z_scores.get(message_id, 0.0),
            )
            for message_id, score in scores.items()
        ]

    def _move_assertions_first(self, evidence: list[Evidence]) -> list[Evidence]:
        is_assertion = [self._can_answer_question(item.message) for item in evidence[:MAX_REORDERED]]
        assertions = [item for item, is_kept in zip(evidence, is_assertion, strict=False) if is_kept]
        return assertions + [
            item for index, item in enumerate(evidence) if index >= MAX_REORDERED or not is_assertion[index]
        ]

    def _can_answer_question(self, message: RetrievedMessage) -> bool:
        cached = self._answers_question.get(message.message_id)
        if cached is None:
            cached = self._answers_question[message.message_id] = can_answer_question(
                message, self._question, has_sender_names=False
            )
        return cached

    def _boost_latest_messages(self, evidence: list[Evidence]) -> list[Evidence]:
        """Raise the scores of the newer top messages if the question asks for the current state."""
        best = evidence[:_RECENCY_MESSAGES]
        if not self._question.analysis.asks_for_latest or len(best) <= 1:
            return evidence
        by_time = sorted(best, key=lambda candidate: (candidate.message.ts, candidate.message.message_id))
        boosts = {
            item.message.message_id: _RECENCY_BOOST * index / (len(best) - 1) for index, item in enumerate(by_time)
        }
        boosted = [
            replace(candidate, score=candidate.score + boosts[candidate.message.message_id]) for candidate in best
        ]
        return sorted(boosted, key=_build_sort_key, reverse=True) + evidence[_RECENCY_MESSAGES:]

    def _combine_scores(self) -> dict[str, float]:
        """Combine the scores of all tools.

        If the question was ranked, only additional queries add to the ranking's scores.
        """
        question_scores = self._question_ranking.scores
        if self._question.is_conversation and question_scores:
            return self._add_preference_boosts(
                _sum_scores(
                    (1.0, _compute_reciprocal_ranks(tool_scores))
                    for tool_scores in (question_scores, *self._tool_scores.values())
                )
            )
        skill_scores = [
            (_TOOL_WEIGHTS[query.tool] * query.weight, tool_scores)
            for query, tool_scores in self._tool_scores.items()
            if query.weight < 1
        ]
        other_scores = [
            (_TOOL_WEIGHTS[query.tool], tool_scores)
            for query, tool_scores in self._tool_scores.items()
            if query.weight >= 1
        ]
        if not question_scores:
            return self._add_preference_boosts(_sum_scores([*skill_scores, *other_scores]))
        scores = self._add_preference_boosts(
            _sum_scores(
                [
                    (1.0, question_scores),
                    *((_SKILL_WEIGHT * weight, tool_scores) for weight, tool_scores in skill_scores),
                ]
            )
        )
        return _shift_scores_below(min(scores.values()), _sum_scores(other_scores)) | scores

    def _add_preference_boosts(self, scores: Mapping[str, float]) -> dict[str, float]:
        return {
            message_id: score + self._compute_preference_boost(self._messages[message_id])
            for message_id, score in scores.items()
        }

    def _compute_preference_boost(self, message: RetrievedMessage) -> float:
        has_role = self._role is not Role.ANY and message.role is self._role
        in_time_range = self._preferred_scope is not None and self._preferred_scope.contains(message)
        return _PREFERENCE_BOOST * (has_role + in_time_range)


def _normalize_scores(tool: str, items: tuple[Hit, ...]) -> dict[str, float]:
    """Scale the scores of a tool to the range 0 to 1. A tool without scores gets reciprocal ranks."""
    if tool == MESSAGES_LIST:
        items = tuple(Hit(hit.message, 1 / (_RANK_SMOOTHING + rank)) for rank, hit in enumerate(items))
    lowest, highest = min((hit.score for hit in items), default=0.0), max((hit.score for hit in items), default=0.0)
    score_range = highest - lowest
    return {hit.message.message_id: (hit.score - lowest) / score_range if score_range else 1.0 for hit in items}


def _compute_reciprocal_ranks(scores: Mapping[str, float]) -> dict[str, float]:
    """Replace scores by reciprocal ranks, which can be compared between rankings."""
    ordered_ids = sorted(scores, key=scores.__getitem__, reverse=True)
    return {message_id: 1 / (_CONVERSATION_SMOOTHING + rank) for rank, message_id in enumerate(ordered_ids)}


def _keep_best_scores(scores: dict[str, float], new_scores: Mapping[str, float]) -> None:
    for message_id, score in new_scores.items():
        scores[message_id] = max(scores.get(message_id, 0.0), score)


def _sum_scores(parts: Iterable[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for weight, part in parts:
        for message_id, score in part.items():
            scores[message_id] = scores.get(message_id, 0.0) + weight * score
    return scores


def _shift_scores_below(minimum: float, scores: Mapping[str, float]) -> dict[str, float]:
    """Normalize scores to lie below `minimum`, which is the lowest score of a better ranking; keep their order."""
    best_score = max(scores.values(), default=0.0) or 1.0
    return {message_id: minimum + score / best_score - 1 - _SCORE_GAP for message_id, score in scores.items()}


def _build_sort_key(evidence: Evidence) -> tuple[float, float, bytes]:
    message = evidence.message
    return (round(evidence.score, _DECIMALS), message.ts.timestamp(), message.message_id.encode())
