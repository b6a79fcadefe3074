"""Run the search phase of a recall: make tool calls within a budget, and collect their results."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import (
    Evidence,
    MessageRelation,
    RetrievedMessage,
    RetrievedMessages,
    SearchFindings,
)
from nomemory.recall.model.model_reading import ModelReading
from nomemory.recall.model.note import Note, NoteKind, create_note
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_limits import SearchLimits, StopReason
from nomemory.recall.model.search_scope import SearchCoverage, SearchScope
from nomemory.recall.model.step import JsonValue, RecallStep
from nomemory.recall.model.sufficiency import Sufficiency
from nomemory.recall.planning.base import Plan, PlanningState, ToolCall
from nomemory.recall.search.ranking import EvidenceRanking
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.bound_tools import SEMANTIC_DISABLED, BoundTools
from nomemory.recall.tools.definitions import HYBRID_SEARCH, LEXICAL_SEARCH, NEIGHBORS, SEMANTIC_SEARCH
from nomemory.recall.tools.result import ToolResult
from nomemory.text.time_range import ANY_TIME, TimeRange

OnStep = Callable[[RecallStep], Awaitable[None]]

_SHOWN_IDS: Final = 20
_SEMANTIC_TIME_SHARE: Final = 1 / 3
"""Maximum share of the remaining time for semantic search. If the embedder hangs, lexical search uses the rest."""
_SHORTEST_CALL_S: Final = 0.001
_LAG_CHECK_S: Final = 0.5
"""Minimum time for an index lag check, in seconds, even if the search has used up its time."""
_MIN_RANKED: Final = 20
"""Minimum size of a ranking for a planner."""
_MAX_EXCHANGES: Final = 40
"""Maximum number of short messages whose replies and preceding messages are read."""
_MAX_NEWEST: Final = 5
"""Maximum number of messages to read that are newer than the best message."""
_MAX_CORRECTIONS: Final = 8
"""Maximum number of corrections to read per round."""
_MAX_CORRECTION_CHAIN: Final = 3
"""Maximum length of a chain of corrections."""
_REPLY_WITHIN: Final = timedelta(hours=1)


class SearchSession:
    """Makes the tool calls of one recall within a budget, and collects their results.

    Args:
        tools: the search tools, which are bound to the user.
        skill: the skill that is passed to planners; its defaults also affect the ranking.
        budget: the host's budget with the limits of the request applied.
        on_step: an async callback that is awaited after each step.
    """

    def __init__(
        self, tools: BoundTools, question: Question, skill: Skill, budget: Budget, on_step: OnStep | None
    ) -> None:
        self.retrieval = RetrievedMessages()
        self._tools = tools
        self._question = question
        self._skill = skill
        self._budget = budget
        self._on_step = on_step
        self._ranking = EvidenceRanking(question, skill.steering.defaults)
        self._relations: dict[tuple[str, str], MessageRelation] = {}
        self._coverage = SearchCoverage(question)
        self._steps: list[RecallStep] = []
        self._seen_calls: set[str] = set()
        started_at = time.monotonic()
        self._search_deadline = started_at + budget.deadline_s
        self.answer_deadline = started_at + budget.answer_s
        """Deadline of the whole recall, on the monotonic clock."""
        self._calls = 0
        self._host_calls = 0
        self._iterations = 0
        self._new_in_round = 0
        self.round_results: list[ToolResult] = []
        """Results of the last round, in order."""
        self._dropped_arguments = 0
        self._has_dropped_messages = False
        self._is_lagging = False
        self._is_lag_known = False
        self._semantic_failed = False
        self._empty_time_ranges: dict[TimeRange, None] = {}
        self._lexical_answered = False
        self._sufficiency: Sufficiency | None = None

    @property
    def remaining_s(self) -> float:
        """Number of seconds that are left for searching."""
        return self._search_deadline - time.monotonic()

    @property
    def remaining_calls(self) -> int:
        """Number of calls that a planner may still request, without the calls reserved for reading neighbors."""
        return max(0, self._budget.tool_calls - self._calls - self._count_reserved_calls())

    @property
    def iterations(self) -> int:
        """The number of rounds so far."""
        return self._iterations

    @property
    def has_new_messages(self) -> bool:
        """Whether the last round returned a message that earlier rounds had not returned."""
        return self._new_in_round > 0

    @property
    def steps(self) -> tuple[RecallStep, ...]:
        """The steps of the recall so far, in order."""
        return tuple(self._steps)

    def rank_evidence(self) -> tuple[Evidence, ...]:
        """Return the evidence so far, best first."""
        return self._ranking.rank_evidence()

    def collect_findings(self) -> SearchFindings:
        """Return the results of the search phase."""
        relations = sorted(self._relations.values(), key=lambda relation: self._build_time_key(relation.later_id))
        return SearchFindings(self.rank_evidence(), self.retrieval, tuple(relations), self._sufficiency)

    def build_planning_state(self, iteration: int) -> PlanningState:
        """Return the state from which a planner decides the next round."""
        return PlanningState(
            question=self._question,
            skill=self._skill,
            budget=self._budget,
            iteration=iteration,
            remaining_calls=self.remaining_calls,
            steps=self.steps,
            ranked=self.rank_evidence(),
        )

    async def execute_plan(self, plan: Plan, iteration: int) -> StopReason | None:
        """Make the calls of a plan. If the budget is exhausted, return the stop reason."""
        self._iterations = iteration
        self._new_in_round = 0
        self.round_results = []
        if not plan.calls:
            await self.record_step(RecallStep(iteration, plan.thought))
        for call in plan.calls:
            if self.remaining_s <= 0:
                return StopReason.DEADLINE
            if not self.remaining_calls:
                return StopReason.TOOL_CALLS
            await self._make_call(call, iteration)
        return None

    async def record_decision(self, plan: Plan, iteration: int) -> None:
        """Record a planner's decision to stop as a step."""
        await self.record_step(RecallStep(iteration, plan.thought))

    async def read_neighbors(self) -> None:
        """Read the messages around the best evidence, unless they have been read already."""
        anchors = [evidence.message.message_id for evidence in self.rank_evidence()[: self._budget.anchors]]
        read_anchors = {str(step.arguments.get("message_id")) for step in self._steps if step.tool == NEIGHBORS}
        for anchor in anchors:
            if anchor in read_anchors or self._calls >= self._budget.tool_calls or self.remaining_s <= 0:
                continue
            arguments: dict[str, JsonValue] = {
                "message_id": anchor,
                "before": self._budget.neighbors_before,
                "after": self._budget.neighbors_after,
            }
            await self._make_call(ToolCall(NEIGHBORS, arguments, "read the neighbors of a top hit"), self._iterations)

    async def rank_question(self) -> None:
        """Rank the messages for the question, before a custom planner continues."""
        question = self._question
        scope = SearchScope(question.time_range or ANY_TIME, question.role or Role.ANY).exclude_future(question.now)
        arguments: dict[str, JsonValue] = {
            "query_text": question.query_text,
            "filter": scope.to_filter_arguments(question.now),
            "top_k": max(_MIN_RANKED, self._budget.ranked_message_count),
        }
        await self.execute_plan(Plan((ToolCall(HYBRID_SEARCH, arguments, "rank the messages"),)), 1)

    async def read_replies(
        self, messages: Sequence[RetrievedMessage]
    ) -> tuple[dict[str, RetrievedMessage], dict[str, RetrievedMessage]]:
        """Read the messages that `messages` reply to, and the replies to `messages`.

        The keys of both results are the ids of `messages`. The calls of this method do not count toward the planner's
        limit.
        """
        anchors = messages[:_MAX_EXCHANGES]
        results = await asyncio.gather(
            *(self._read_message_neighbors(item.message_id, before=1, after=1) for item in anchors)
        )
        self._host_calls += len(anchors)
        preceding, replies = dict[str, RetrievedMessage](), dict[str, RetrievedMessage]()
        for message, result in zip(anchors, results, strict=True):
            for neighbor in (hit.message for hit in result.items):
                if neighbor.ts <= message.ts and _is_reply(message, neighbor):
                    preceding[message.message_id] = neighbor
                elif neighbor.ts >= message.ts and _is_reply(neighbor, message):
                    replies[message.message_id] = neighbor
        if anchors:
            ids = tuple(item.message_id for item in (*preceding.values(), *replies.values()))
            thought, observation = (
                "read the messages before short messages and the replies to questions",
                f"{len(anchors)} calls",
            )
            await self.record_step(
                RecallStep(self._iterations, thought, NEIGHBORS, {}, len(ids), None, ids, observation)
            )
        return preceding, replies

    async def read_newest_messages(self) -> list[RetrievedMessage]:
        """Search for messages that are newer than the best evidence.

        The call does not count toward the planner's limit.
        """
        best = self.rank_evidence()[:1]
        if not best or self.remaining_s <= 0:
            return []
        question = self._question
        since = best[0].message.ts + timedelta(milliseconds=1)
        until = min(question.now, (question.time_range and question.time_range.until) or question.now)
        if since >= until:
            return []
        scope = SearchScope(TimeRange(since, until), question.role or Role.ANY)
        arguments: dict[str, JsonValue] = {
            "query_text": question.query_text,
            "filter": scope.to_filter_arguments(question.now),
            "top_k": _MAX_NEWEST,
        }
        result = await self._tools.call(HYBRID_SEARCH, arguments, max(self.remaining_s, _SHORTEST_CALL_S))
        self._host_calls += 1
        self.retrieval.add_messages(hit.message for hit in result.items)
        self._ranking.add_result(HYBRID_SEARCH, result)
        ids = tuple(hit.message.message_id for hit in result.items)
        await self.record_step(
            RecallStep(
                self._iterations, "search for newer messages on the topic", HYBRID_SEARCH, {}, len(ids), None, ids
            )
        )
        return [hit.message for hit in result.items]

    async def read_corrections(self) -> None:
        """Read the messages that correct the best evidence, and messages that correct those corrections.

        The calls do not count toward the planner's limit.
        """
        requested = {""}
        for _ in range(_MAX_CORRECTION_CHAIN):
            best = (message.message for message in self.rank_evidence()[: self._budget.evidence_messages])
            retracting_ids = dict.fromkeys(candidate.retracted_by for candidate in best)
            missing = [
                item for item in retracting_ids if self.retrieval.get_message(item) is None and item not in requested
            ][:_MAX_CORRECTIONS]
            if not missing:
                return
            requested.update(missing)
            await self._read_corrections(missing)

    async def _read_corrections(self, message_ids: Sequence[str]) -> None:
        results = await asyncio.gather(*(self._read_message_neighbors(item, before=0) for item in message_ids))
        self._host_calls += len(results)
        for result in results:
            self._ranking.add_result(NEIGHBORS, result)
        thought, observation = "read the messages that retracted results", f"{len(results)} calls"
        ids = tuple(hit.message.message_id for result in results for hit in result.items)
        await self.record_step(RecallStep(self._iterations, thought, NEIGHBORS, {}, len(ids), None, ids, observation))

    async def _read_message_neighbors(self, message_id: str, before: int, after: int = 0) -> ToolResult:
        """Read a message and the messages around it."""
        arguments: dict[str, JsonValue] = {"message_id": message_id, "before": before, "after": after}
        result = await self._tools.call(NEIGHBORS, arguments, max(self.remaining_s, _SHORTEST_CALL_S))
        self.retrieval.add_messages(hit.message for hit in result.items)
        return result

    def extend_deadline(self, seconds: float) -> None:
        """Extend the deadline for searching by the time that a chat model took to answer."""
        self._search_deadline += seconds

    async def is_index_lagging(self) -> bool:
        """Return whether some of the user's stored messages are not searchable yet.

        The last ranking reports whether an index lags. If there was no ranking, the method calls the QueryService.
        """
        if not (self._is_lagging or self._is_lag_known):
            self._is_lagging = await self._tools.is_index_lagging(max(self.remaining_s, _LAG_CHECK_S))
            self._is_lag_known = True
        return self._is_lagging

    def build_limits(
        self, planner: str, stop_reason: StopReason, notes: tuple[Note, ...], reading: ModelReading, *, truncated: bool
    ) -> SearchLimits:
        """Return the searched scope, the number of results and the stop reason of the recall."""
        widest = self._coverage.widest_scope
        return SearchLimits(
            time_range=widest.time_range,
            role=widest.role,
            messages_considered=len(self.retrieval),
            tool_calls=self._calls + self._host_calls,
            iterations=self._iterations,
            planner=planner,
            stop_reason=stop_reason,
            truncated=truncated or self._has_dropped_messages,
            index_lagging=self._is_lagging,
            widened=self._coverage.is_widened,
            skill=self._skill.name,
            dropped_arguments=self._dropped_arguments,
            notes=self._build_notes() + notes,
            sufficiency=self._sufficiency.probability if self._sufficiency else None,
            reading=reading,
            empty_time_ranges=tuple(self._empty_time_ranges),
        )

    def _build_notes(self) -> tuple[Note, ...]:
        notes = [create_note(NoteKind.SINGLE_CONVERSATION)] if self._question.conversation_id else []
        if self._semantic_failed:
            then = ": only lexical search was used" if self._lexical_answered else ""
            notes.append(create_note(NoteKind.SEMANTIC_INCOMPLETE, then=then))
        if self._empty_time_ranges:
            notes.append(create_note(NoteKind.TIME_RANGE_EMPTY, count=len(self._empty_time_ranges)))
        return tuple(notes)

    def _build_time_key(self, message_id: str) -> tuple[float, str]:
        """Return a key that sorts messages by time. Messages that were dropped to fit the budget sort first."""
        message = self.retrieval.get_message(message_id)
        return (message.ts.timestamp() if message else -math.inf, message_id)

    def _count_reserved_calls(self) -> int:
        return 0 if self._budget.read_messages else min(self._budget.anchors, self._budget.tool_calls // 3)

    async def _make_call(self, call: ToolCall, iteration: int) -> None:
        call_key = json.dumps([call.tool, dict(call.arguments)], sort_keys=True, default=str)
        if call_key in self._seen_calls:
            await self.record_step(
                RecallStep(iteration, call.thought, call.tool, observation="not repeated: made before")
            )
            return
        self._seen_calls.add(call_key)
        if call.tool == SEMANTIC_SEARCH and not self._tools.has_semantic_search:
            not_called = f"not called: {SEMANTIC_DISABLED}"
            await self.record_step(
                RecallStep(iteration, call.thought, call.tool, observation=not_called, semantic_disabled=True)
            )
            return
        started_at = time.monotonic()
        if call.tool != HYBRID_SEARCH:  # Rankings wait for both indexes on the server.
            await self._tools.wait_for_write(max(self.remaining_s, _SHORTEST_CALL_S))
        result = await self._tools.call(call.tool, call.arguments, self._get_call_timeout_s(call.tool))
        # A semantic search that fails because semantic search is unavailable does not count toward the limit.
        self._calls += call.tool != SEMANTIC_SEARCH or self._tools.has_semantic_search
        self._record_result(call, result)
        self.round_results.append(result)
        await self.record_step(_build_step(call, result, iteration, time.monotonic() - started_at))

    def _get_call_timeout_s(self, tool: str) -> float:
        share = _SEMANTIC_TIME_SHARE if tool == SEMANTIC_SEARCH else 1.0
        return max(self.remaining_s * share, _SHORTEST_CALL_S)

    def _record_result(self, call: ToolCall, result: ToolResult) -> None:
        self._new_in_round += self.retrieval.add_messages(hit.message for hit in result.items)
        self._ranking.add_result(call.tool, result, call.weight)
        self._relations |= {(relation.earlier_id, relation.later_id): relation for relation in result.relations}
        if result.scope is not None:
            self._coverage.add_scope(result.scope)
        self._dropped_arguments += result.dropped_arguments
        self._has_dropped_messages |= result.truncated
        self._is_lagging |= result.index_lagging
        self._empty_time_ranges |= dict.fromkeys(result.empty_time_ranges)
        self._semantic_failed |= result.semantic_unavailable or (call.tool == SEMANTIC_SEARCH and not result.succeeded)
        self._is_lag_known |= call.tool == HYBRID_SEARCH and result.succeeded
        self._lexical_answered |= call.tool in {LEXICAL_SEARCH, HYBRID_SEARCH} and result.succeeded
        if self._sufficiency is None:
            self._sufficiency = result.sufficiency

    async def record_step(self, step: RecallStep) -> None:
        """Append a step, and call `on_step`."""
        self._steps.append(step)
        if self._on_step is not None:
            await self._on_step(step)


def _is_reply(reply: RetrievedMessage, preceding: RetrievedMessage) -> bool:
    """Return whether a message follows another sender's message in the same conversation within an hour."""
    is_recent = reply.ts - preceding.ts <= _REPLY_WITHIN and preceding.conversation_id == reply.conversation_id
    return is_recent and (preceding.role, preceding.name) != (reply.role, reply.name)


def _build_step(call: ToolCall, result: ToolResult, iteration: int, elapsed_s: float) -> RecallStep:
    return RecallStep(
        iteration=iteration,
        thought=call.thought,
        tool=call.tool,
        arguments=result.arguments,
        hit_count=len(result.items),
        word_hit_count=result.word_hit_count,
        message_ids=tuple(hit.message.message_id for hit in result.items[:_SHOWN_IDS]),
        observation=result.observation,
        next_cursor=result.next_cursor,
        elapsed_s=elapsed_s,
        semantic_disabled=result.semantic_disabled,
    )
