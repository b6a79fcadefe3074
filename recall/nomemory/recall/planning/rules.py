"""A rule-based planner: rank the question, then widen the scope if there are too few results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from nomemory.recall.model.question import Question
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.model.step import JsonValue
from nomemory.recall.planning.base import Plan, Situation, ToolCall
from nomemory.recall.skills.steering.lexicon import search_text
from nomemory.recall.skills.steering.steering import Steering
from nomemory.recall.skills.steering.template import Template
from nomemory.recall.tools.definitions import HYBRID_SEARCH, LEXICAL_SEARCH, MESSAGES_LIST, NEIGHBORS, SEMANTIC_SEARCH
from nomemory.text.names import remove_names
from nomemory.text.question_words import build_words_query
from nomemory.text.time_expressions import range_of_last_days
from nomemory.text.time_range import ANY_TIME

_WINDOWS_DAYS: Final = (7, 30, 180)
"""Time windows in days, shortest first, before an unlimited search."""
_RECENT_DAYS: Final = 30
"""Initial window in days for questions about future events."""
_PAGE: Final = 20
_CONVERSATION_PAGE: Final = 50
"""Page size for conversational input. A message may rank low in one of the merged rankings and high in the other."""
_NEIGHBOR_ANCHORS: Final = 2
"""Number of top hits whose neighbors are read; the host reads others after the search."""
_REWRITE_WEIGHT: Final = 0.5
_LEXICON_WEIGHT: Final = 0.7
_PHRASE_WEIGHT: Final = 0.7
"""Weight of additional queries relative to the question."""
_TURN_WEIGHT: Final = 0.3
"""Weight of the preceding turn, which helps to rank the hits of the question."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+")


class RulesPlanner:
    """Plans by rules. Plans are deterministic for the same question, messages and skill.

    The planner first ranks the question within the time range and role of the caller or the question, then in wider
    scopes if there are too few results.

    A skill adjusts the plan. Its defaults set the initial scope, its lexicon adds synonyms, and its query template adds
    queries, the first tool, and neighbor reads.

    Conversational input is searched semantically. Only the skill's defaults apply to it.
    """

    def __init__(self) -> None:
        self._has_started = False
        self._steering = Steering()
        self._template: Template | None = None
        self._page = _PAGE
        self._ranked_page = _PAGE
        self._is_lexical = False
        self._scope = SearchScope()
        self._has_read_neighbors = False

    @property
    def name(self) -> str:
        """The name `rules`."""
        return "rules"

    async def plan(self, situation: Situation) -> Plan:
        """Return the plan for the next round."""
        question = situation.question
        if not self._has_started:
            self._has_started = True
            self._apply_skill(situation.skill.steering, question)
            self._ranked_page = max(self._page, situation.budget.ranked_messages)
            return Plan(tuple(self._first_calls(question)), thought=_thought(question))
        calls = [*self._read_neighbors(situation), *self._search_wider(situation)]
        if any(step.semantic_disabled for step in situation.steps):
            calls = list(self._without_semantic_search(calls, question))
        if not calls:
            return Plan(stop=True, thought=f"{len(situation.ranked)} candidates: more searching would bring noise")
        return Plan(tuple(calls), thought="what was found leads further")

    def _apply_skill(self, steering: Steering, question: Question) -> None:
        self._steering = steering
        self._template = steering.template(question.analysis)
        self._is_lexical = self._first_tool == LEXICAL_SEARCH
        self._page = steering.page_size(_CONVERSATION_PAGE if question.is_conversation else _PAGE)
        self._scope = steering.first_scope(question)

    @property
    def _first_tool(self) -> str | None:
        return self._template.first if self._template else None

    def _first_calls(self, question: Question) -> Iterator[ToolCall]:
        if question.is_conversation:
            self._scope = SearchScope(question.time_range or ANY_TIME, self._scope.role)
            yield from self._search_question(question, "what this brings to mind")
            return
        if self._first_tool == MESSAGES_LIST:
            recent = None if question.analysis.time_signal else self._steering.window(question.now)
            window = question.time_range or recent or range_of_last_days(_RECENT_DAYS, question.now)
            listed: dict[str, JsonValue] = {
                "role": self._steering.role(question).value,
                **SearchScope(window).time_arguments(question.now),
                "page_size": self._page,
            }
            yield ToolCall(MESSAGES_LIST, listed, "what was said lately")
        yield from self._search_question(question, _thought(question))

    def _search_question(self, question: Question, why: str) -> Iterator[ToolCall]:
        """Search for the question and the skill's additional queries, in the skill's order.

        The ranking includes a lexical search, so a second one would count words twice. Conversational input is searched
        semantically and ranked. For questions with a pronoun, the preceding turn is searched as well.
        """
        ranked = self._ranking_call(question, why)
        if question.is_conversation:
            yield self._search(SEMANTIC_SEARCH, question.query_text, question, f"{why}: what is nearest to it")
            yield ranked
            return
        if self._first_tool != LEXICAL_SEARCH:
            yield ranked
        yield from self._search_phrases(question)
        yield from self._search_synonyms(question, why)
        yield from self._search_rewrites(question)
        yield from self._search_preceding_turn(question)
        if self._first_tool == LEXICAL_SEARCH:
            yield ranked

    def _ranking_call(self, question: Question, why: str) -> ToolCall:
        """Rank the question, down to the evidence limit.

        A time expression affects the order but excludes no messages because people state times imprecisely.
        """
        is_vague = (
            not question.is_conversation and question.time_range is None and question.analysis.time_signal is not None
        )
        scope = SearchScope(role=self._scope.role) if is_vague else self._scope
        arguments: dict[str, JsonValue] = {
            "query_text": question.query_text,
            "filter": scope.as_filter(question.now),
            "top_k": self._ranked_page,
        }
        return ToolCall(HYBRID_SEARCH, arguments, f"{why}: what answers best")

    def _search_phrases(self, question: Question) -> Iterator[ToolCall]:
        """Search for exact phrases."""
        words = build_words_query([], question.analysis.exact_phrases)
        if words:
            yield self._search(LEXICAL_SEARCH, words, question, "in just these words", _PHRASE_WEIGHT)

    def _search_synonyms(self, question: Question, why: str) -> Iterator[ToolCall]:
        """Search for the lexicon's synonyms in a separate call to keep all hits of the question."""
        others = self._steering.expansions(question.analysis.question_text)
        if others:
            words = [*question.analysis.content_words, *filter(_WORD.fullmatch, others)]
            query = build_words_query(words, [other for other in others if not _WORD.fullmatch(other)])
            yield self._search(LEXICAL_SEARCH, query, question, f"{why}: in the lexicon's terms", _LEXICON_WEIGHT)

    def _search_rewrites(self, question: Question) -> Iterator[ToolCall]:
        """Search for the template's rewrites, lexically if its first tool is lexical, otherwise semantically."""
        reading, words = question.analysis, " ".join(question.analysis.content_words)
        question_text = (
            words
            if self._is_lexical
            else remove_names(reading.question_text, reading.named_people) or reading.question_text
        )
        for query in self._template.queries(question_text, words) if self._template else ():
            if not self._is_lexical:
                yield self._search(SEMANTIC_SEARCH, query, question, "rewritten, in other words", _REWRITE_WEIGHT)
            elif by_words := build_words_query(search_text(query).split()):
                yield self._search(LEXICAL_SEARCH, by_words, question, "rewritten, in these words", _REWRITE_WEIGHT)

    def _search_preceding_turn(self, question: Question) -> Iterator[ToolCall]:
        """Search for the preceding turn if the question refers to it with "it" or "那"."""
        if question.background:
            why = "what the question may refer to"
            yield self._search(SEMANTIC_SEARCH, question.background, question, why, _TURN_WEIGHT)

    def _without_semantic_search(self, calls: Iterable[ToolCall], question: Question) -> Iterator[ToolCall]:
        """Remove semantic searches; run the rewrites as lexical searches instead."""
        if not self._is_lexical:
            self._is_lexical = True
            yield from self._search_rewrites(question)
        yield from (call for call in calls if call.tool != SEMANTIC_SEARCH)

    def _read_neighbors(self, situation: Situation) -> Iterator[ToolCall]:
        """Read the neighbors of the best hits once, if the template requests it."""
        if self._template and self._template.neighbors and not self._has_read_neighbors:
            self._has_read_neighbors = True
            for evidence in situation.ranked[: min(_NEIGHBOR_ANCHORS, situation.budget.anchors)]:
                yield ToolCall(NEIGHBORS, {"message_id": evidence.message.message_id}, "what stands around a good hit")

    def _search_wider(self, situation: Situation) -> Iterator[ToolCall]:
        """Repeat the search in a wider scope if there were too few results."""
        scope = _wider_scope(self._scope, situation.question)
        if scope != self._scope and _has_too_few(self._scope, situation, self._page):
            self._scope = scope
            yield from self._search_question(situation.question, "too few: a wider window")

    def _search(self, tool: str, text: str, question: Question, why: str, weight: float = 1.0) -> ToolCall:
        """Search for a text in the current scope. Additional queries have a lower weight."""
        size = "page_size" if tool == LEXICAL_SEARCH else "top_k"
        filter_argument = self._scope.as_filter(question.now)
        return ToolCall(tool, {"query_text": text, "filter": filter_argument, size: self._page}, why, weight)


def _has_too_few(scope: SearchScope, situation: Situation, page: int) -> bool:
    """Return whether a scope has fewer messages than needed, or none with words of the question.

    For a scope that the caller set explicitly, only the number of messages counts.
    """
    hits = _hits_by_words(situation)
    in_scope = sum(1 for evidence in situation.ranked if scope.contains(evidence.message))
    is_default_scope = situation.question.time_range is None and situation.question.role is None
    return in_scope < min(situation.budget.evidence_messages, page) or (
        is_default_scope and bool(hits) and not any(hits)
    )


def _hits_by_words(situation: Situation) -> list[int]:
    """Return the number of hits with words of the question, for each ranking of the last round."""
    last = situation.iteration - 1
    return [step.word_hits for step in situation.steps if step.word_hits is not None and step.iteration == last]


def _wider_scope(scope: SearchScope, question: Question) -> SearchScope:
    """Return the next wider scope: 7, 30, 180 days, then unlimited in time and role."""
    since = scope.window.since
    for days in _WINDOWS_DAYS:
        if since is not None and question.now - since < timedelta(days=days):
            return SearchScope(range_of_last_days(days, question.now), scope.role)
    return SearchScope()


def _thought(question: Question) -> str:
    signal = question.analysis.time_signal
    return f"looking for what answers; “{signal.expression}”" if signal else "looking for what answers"
