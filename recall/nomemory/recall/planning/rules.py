"""Planner that ranks the messages for the question, and widens the search scope if there are too few results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from nomemory.recall.model.question import Question
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.model.step import JsonValue
from nomemory.recall.planning.base import Plan, PlanningState, ToolCall
from nomemory.recall.skills.steering.lexicon import remove_operators
from nomemory.recall.skills.steering.steering import PlannerConfiguration
from nomemory.recall.skills.steering.template import QueryTemplate
from nomemory.recall.tools.definitions import HYBRID_SEARCH, LEXICAL_SEARCH, MESSAGES_LIST, NEIGHBORS, SEMANTIC_SEARCH
from nomemory.text.names import remove_names
from nomemory.text.question_words import build_words_query
from nomemory.text.time_expressions import build_last_days_range
from nomemory.text.time_range import ANY_TIME

_WIDER_RANGES_DAYS: Final = (7, 30, 180)
"""Time windows in days, shortest first, before an unlimited search."""
_RECENT_DAYS: Final = 30
"""Time window of the first message list, in days, if the question and the skill set no time range."""
_PAGE_SIZE: Final = 20
_CONVERSATION_PAGE_SIZE: Final = 50
"""Page size for conversational input. A message may rank low in one of the merged rankings and high in the other."""
_NEIGHBOR_ANCHORS: Final = 2
"""Maximum number of top hits whose neighbors the planner reads."""
_REWRITE_WEIGHT: Final = 0.5
_LEXICON_WEIGHT: Final = 0.7
_PHRASE_WEIGHT: Final = 0.7
"""Weight of additional queries relative to the question."""
_TURN_WEIGHT: Final = 0.3
"""Weight of the preceding turn, which helps to rank the hits of the question."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+")


class RulesPlanner:
    """A deterministic planner that needs no chat model.

    The planner first searches the scope that the caller, the question or the skill sets. If there are too few results,
    the planner searches wider scopes.

    A skill adjusts the plan. The skill's defaults set the initial scope, its lexicon adds synonyms, and its query
    template sets the first tool and adds queries and neighbor reads. If the input is a conversation rather than a
    question, the planner searches semantically and uses only the defaults of the skill.
    """

    def __init__(self) -> None:
        self._has_started = False
        self._steering = PlannerConfiguration()
        self._template: QueryTemplate | None = None
        self._page_size = _PAGE_SIZE
        self._ranking_size = _PAGE_SIZE
        self._is_lexical = False
        self._scope = SearchScope()
        self._has_read_neighbors = False

    @property
    def name(self) -> str:
        """The planner's name in results, `rules`."""
        return "rules"

    async def plan(self, state: PlanningState) -> Plan:
        """Decide the tool calls of the next round."""
        question = state.question
        if not self._has_started:
            self._has_started = True
            self._apply_skill(state.skill.steering, question)
            self._ranking_size = max(self._page_size, state.budget.ranked_message_count)
            return Plan(tuple(self._plan_first_calls(question)), thought=_describe_search(question))
        calls = [*self._read_neighbors(state), *self._search_wider_scope(state)]
        if any(step.semantic_disabled for step in state.steps):
            calls = list(self._replace_semantic_searches(calls, question))
        if not calls:
            return Plan(stop=True, thought=f"{len(state.ranked)} candidates are enough")
        return Plan(tuple(calls), thought="follow up on the results")

    def _apply_skill(self, steering: PlannerConfiguration, question: Question) -> None:
        self._steering = steering
        self._template = steering.select_template(question.analysis)
        self._is_lexical = self._first_tool == LEXICAL_SEARCH
        self._page_size = steering.choose_page_size(_CONVERSATION_PAGE_SIZE if question.is_conversation else _PAGE_SIZE)
        self._scope = steering.choose_initial_scope(question)

    @property
    def _first_tool(self) -> str | None:
        return self._template.first_tool if self._template else None

    def _plan_first_calls(self, question: Question) -> Iterator[ToolCall]:
        if question.is_conversation:
            self._scope = SearchScope(question.time_range or ANY_TIME, self._scope.role)
            yield from self._search_question(question, "find messages related to the conversation")
            return
        if self._first_tool == MESSAGES_LIST:
            recent_range = (
                None if question.analysis.time_signal else self._steering.compute_default_time_range(question.now)
            )
            window = question.time_range or recent_range or build_last_days_range(_RECENT_DAYS, question.now)
            arguments: dict[str, JsonValue] = {
                "role": self._steering.choose_role(question).value,
                **SearchScope(window).to_time_arguments(question.now),
                "page_size": self._page_size,
            }
            yield ToolCall(MESSAGES_LIST, arguments, "list recent messages")
        yield from self._search_question(question, _describe_search(question))

    def _search_question(self, question: Question, thought: str) -> Iterator[ToolCall]:
        """Yield the searches for the question and for the additional queries of the skill.

        If the input is a conversation rather than a question, a semantic search and a ranking are run. If the question
        refers to the preceding turn with a pronoun, a search for the preceding turn is added. The ranking
        already includes a lexical search; a second lexical search would count the words twice.
        """
        ranking_call = self._create_ranking_call(question, thought)
        if question.is_conversation:
            yield self._create_search_call(
                SEMANTIC_SEARCH, question.query_text, question, f"{thought}: search for similar messages"
            )
            yield ranking_call
            return
        if self._first_tool != LEXICAL_SEARCH:
            yield ranking_call
        yield from self._search_phrases(question)
        yield from self._search_synonyms(question, thought)
        yield from self._search_rewrites(question)
        yield from self._search_preceding_turn(question)
        if self._first_tool == LEXICAL_SEARCH:
            yield ranking_call

    def _create_ranking_call(self, question: Question, thought: str) -> ToolCall:
        """Create the call that ranks the messages for the question.

        A time expression in the question affects the order of the messages but excludes none, because people state
        times imprecisely.
        """
        is_vague = (
            not question.is_conversation and question.time_range is None and question.analysis.time_signal is not None
        )
        scope = SearchScope(role=self._scope.role) if is_vague else self._scope
        arguments: dict[str, JsonValue] = {
            "query_text": question.query_text,
            "filter": scope.to_filter_arguments(question.now),
            "top_k": self._ranking_size,
        }
        return ToolCall(HYBRID_SEARCH, arguments, f"{thought}: rank the messages")

    def _search_phrases(self, question: Question) -> Iterator[ToolCall]:
        """Yield a search for each quoted phrase in the question."""
        words = build_words_query([], question.analysis.exact_phrases)
        if words:
            yield self._create_search_call(
                LEXICAL_SEARCH, words, question, "search for the exact phrases", _PHRASE_WEIGHT
            )

    def _search_synonyms(self, question: Question, thought: str) -> Iterator[ToolCall]:
        """Yield a search for synonyms of the question's words, from the skill's lexicon."""
        synonyms = self._steering.find_synonyms(question.analysis.question_text)
        if synonyms:
            words = [*question.analysis.content_words, *filter(_WORD.fullmatch, synonyms)]
            query = build_words_query(words, [other for other in synonyms if not _WORD.fullmatch(other)])
            yield self._create_search_call(
                LEXICAL_SEARCH, query, question, f"{thought}: search for synonyms from the lexicon", _LEXICON_WEIGHT
            )

    def _search_rewrites(self, question: Question) -> Iterator[ToolCall]:
        """Yield a search for each rewrite of the template: lexical if its first tool is lexical, otherwise semantic."""
        analysis, words = question.analysis, " ".join(question.analysis.content_words)
        question_text = (
            words
            if self._is_lexical
            else remove_names(analysis.question_text, analysis.named_people) or analysis.question_text
        )
        for query in self._template.build_queries(question_text, words) if self._template else ():
            if not self._is_lexical:
                yield self._create_search_call(
                    SEMANTIC_SEARCH, query, question, "search for a rewrite with semantic search", _REWRITE_WEIGHT
                )
            elif lexical_query := build_words_query(remove_operators(query).split()):
                yield self._create_search_call(
                    LEXICAL_SEARCH, lexical_query, question, "search for a rewrite with lexical search", _REWRITE_WEIGHT
                )

    def _search_preceding_turn(self, question: Question) -> Iterator[ToolCall]:
        """Yield a search for the preceding turn if the question refers to it with a word like "it" or "那"."""
        if question.referenced_turn:
            thought = "search for the turn that the question may refer to"
            yield self._create_search_call(SEMANTIC_SEARCH, question.referenced_turn, question, thought, _TURN_WEIGHT)

    def _replace_semantic_searches(self, calls: Iterable[ToolCall], question: Question) -> Iterator[ToolCall]:
        """Remove the semantic searches from planned calls, and add lexical searches for the template's rewrites."""
        if not self._is_lexical:
            self._is_lexical = True
            yield from self._search_rewrites(question)
        yield from (call for call in calls if call.tool != SEMANTIC_SEARCH)

    def _read_neighbors(self, state: PlanningState) -> Iterator[ToolCall]:
        """Yield calls that read the neighbors of the best hits, once per recall, if the template requests them."""
        if self._template and self._template.reads_neighbors and not self._has_read_neighbors:
            self._has_read_neighbors = True
            for evidence in state.ranked[: min(_NEIGHBOR_ANCHORS, state.budget.anchors)]:
                yield ToolCall(
                    NEIGHBORS, {"message_id": evidence.message.message_id}, "read the neighbors of a top hit"
                )

    def _search_wider_scope(self, state: PlanningState) -> Iterator[ToolCall]:
        """Yield the searches for the question in the next wider scope, if there were too few results."""
        scope = _widen_scope(self._scope, state.question)
        if scope != self._scope and _has_too_few_results(self._scope, state, self._page_size):
            self._scope = scope
            yield from self._search_question(state.question, "too few results: widen the search")

    def _create_search_call(
        self, tool: str, text: str, question: Question, thought: str, weight: float = 1.0
    ) -> ToolCall:
        """Create a call that searches the current scope for a text. Additional queries have a lower weight."""
        size_argument = "page_size" if tool == LEXICAL_SEARCH else "top_k"
        filter_argument = self._scope.to_filter_arguments(question.now)
        return ToolCall(
            tool, {"query_text": text, "filter": filter_argument, size_argument: self._page_size}, thought, weight
        )


def _has_too_few_results(scope: SearchScope, state: PlanningState, page_size: int) -> bool:
    """Return whether a scope has fewer messages than needed, or no message with words of the question.

    If the caller set the scope explicitly, only the number of messages counts.
    """
    word_hit_counts = _get_word_hit_counts(state)
    in_scope = sum(1 for evidence in state.ranked if scope.contains(evidence.message))
    is_default_scope = state.question.time_range is None and state.question.role is None
    return in_scope < min(state.budget.evidence_messages, page_size) or (
        is_default_scope and bool(word_hit_counts) and not any(word_hit_counts)
    )


def _get_word_hit_counts(state: PlanningState) -> list[int]:
    """Return, for each ranking of the last round, the number of hits that contain words of the question."""
    last_round = state.iteration - 1
    return [
        step.word_hit_count for step in state.steps if step.word_hit_count is not None and step.iteration == last_round
    ]


def _widen_scope(scope: SearchScope, question: Question) -> SearchScope:
    """Return the next wider scope: 7, 30, 180 days, then unlimited in time and role."""
    since = scope.time_range.since
    for days in _WIDER_RANGES_DAYS:
        if since is not None and question.now - since < timedelta(days=days):
            return SearchScope(build_last_days_range(days, question.now), scope.role)
    return SearchScope()


def _describe_search(question: Question) -> str:
    signal = question.analysis.time_signal
    return f"search for an answer from “{signal.expression}”" if signal else "search for an answer"
