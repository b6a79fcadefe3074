"""Run a recall: plan and search within a budget, then draft and verify the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nomemory.recall.grounding.calibration import calibrate_sufficiency
from nomemory.recall.grounding.citations import verify_statements
from nomemory.recall.grounding.conclusion import verify_draft_view
from nomemory.recall.llm.chat_model import ChatModel
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import Evidence, SearchFindings
from nomemory.recall.model.memory_view import DraftView, Verdict, VerifiedView
from nomemory.recall.model.model_reading import ModelFailure, ModelFailureKind, ModelReading
from nomemory.recall.model.note import Note, NoteKind, create_note
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.search_limits import StopReason
from nomemory.recall.model.sufficiency import DEFAULT_THRESHOLDS, SufficiencyThresholds
from nomemory.recall.planning.base import Plan, Planner, PlannerFailedError
from nomemory.recall.planning.rules import RulesPlanner
from nomemory.recall.reading.reader import MessageReader, ReaderFailedError
from nomemory.recall.search.session import OnStep, SearchSession
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.extractive import ExtractiveSynthesizer
from nomemory.recall.tools.bound_tools import BoundTools

_RESERVED_FALLBACK_S: Final = 2.0
"""Search time reserved for `RulesPlanner` if a custom planner hangs, in seconds."""
_NO_VALID_QUOTE: Final = ModelFailure(
    ModelFailureKind.NO_VALID_QUOTE, "no statement of the chat model had a valid quote"
)
_UNANSWERED: Final = frozenset({Verdict.INSUFFICIENT, Verdict.PENDING})


class RecallAgent:
    """Answers a question from the messages of one user.

    Each recall begins with a rule-based ranking of the messages. A custom planner may then run more searches. A chat
    model reads the best messages and composes the answer; without a model, the answer quotes the best messages.

    Args:
        tools: the search tools, which are bound to the user.
        planner: plans the searches after the ranking. If the planner is None or fails, `RulesPlanner` plans the
            searches.
        model: reads the best messages and composes the answer. If the model is None or fails, the answer quotes the
            best messages.
        budget: the host's budget with the limits of the request applied.
        thresholds: the host's verdict thresholds for answers without a model.
    """

    def __init__(
        self,
        tools: BoundTools,
        planner: Planner | None,
        model: ChatModel | None,
        budget: Budget,
        thresholds: SufficiencyThresholds = DEFAULT_THRESHOLDS,
    ) -> None:
        self._tools = tools
        self._model = model
        self._budget = budget if model else replace(budget, read_messages=0)
        self._thresholds = thresholds
        self._planner = planner or RulesPlanner()
        self._fallback_planner = RulesPlanner() if planner else None
        self._answered_by = self._planner.name
        self._reading = ModelReading()
        self._notes: list[Note] = []

    async def run(self, question: Question, skill: Skill, on_step: OnStep | None = None) -> RecallResult:
        """Search the messages, then build the verified answer. Cancelling the task stops all work immediately.

        Raises:
            QueryServiceUnavailableError: the QueryService does not respond or rejects all reads.
            EmbeddingRejectedError: the service rejected the caller's vector of the question.
            WriteTokenRejectedError: the write token belongs to another message log.
            IndexLaggingError: the indexes did not reach the write token in time.
        """
        search = SearchSession(self._tools, question, skill, self._budget, on_step)
        stop_reason = await self._run_search_phase(search)
        self._tools.check_reachable()
        await search.read_corrections()
        draft = await self._read_with_model(self._model, search, question, skill) if self._model else None
        if draft is None:
            await search.read_neighbors()
            draft = await self._draft_extractive_view(search, question, skill)
        synthesis = verify_draft_view(question, draft, search.collect_findings(), self._thresholds)
        if synthesis.verdict is Verdict.INSUFFICIENT and await search.is_index_lagging():
            synthesis = replace(
                synthesis, verdict=Verdict.PENDING, notes=(*synthesis.notes, create_note(NoteKind.INDEXING_PENDING))
            )
        return self._build_result(search, stop_reason, synthesis, skill)

    async def _run_search_phase(self, search: SearchSession) -> StopReason:
        if self._fallback_planner:
            await search.rank_question()
        for iteration in range(1, self._budget.iterations + 1):
            plan = await self._request_plan(search, iteration)
            if plan is None:
                return StopReason.DEADLINE if search.remaining_s <= 0 else StopReason.NO_GAIN
            if plan.stop:
                await search.record_decision(plan, iteration)
                return StopReason.SUFFICIENT if search.has_new_messages else StopReason.NO_GAIN
            stop_reason = await search.execute_plan(plan, iteration)
            if stop_reason is not None:
                return stop_reason
            if self._tools.is_unreachable:
                return StopReason.NO_GAIN
        return StopReason.ITERATIONS

    async def _request_plan(self, search: SearchSession, iteration: int) -> Plan | None:
        """Return the plan of the planner, or of `RulesPlanner` if the planner fails or times out; None if both fail."""
        state = search.build_planning_state(iteration)
        spare_s = _RESERVED_FALLBACK_S if self._fallback_planner else 0.0
        try:
            async with asyncio.timeout(max(search.remaining_s - spare_s, search.remaining_s / 2, 0)):
                return await self._planner.plan(state)
        except (PlannerFailedError, TimeoutError):
            if self._fallback_planner is None:
                return None
        self._answered_by = f"{self._planner.name}→{self._fallback_planner.name}"
        self._notes.append(
            create_note(NoteKind.PLANNER_FAILED, planner=self._planner.name, fallback=self._fallback_planner.name)
        )
        self._planner, self._fallback_planner = self._fallback_planner, None
        return await self._request_plan(search, iteration)

    async def _read_with_model(
        self, model: ChatModel, search: SearchSession, question: Question, skill: Skill
    ) -> DraftView | None:
        """Return the chat model's draft; None if the model fails or the messages support none of its statements."""
        reader = MessageReader(model, search, self._budget)
        self._answered_by = reader.name
        try:
            draft = await reader.read(question, skill)
        except ReaderFailedError as error:
            failure = error.failure
        else:
            self._reading = reader.model_reading
            view, rejected = verify_statements(draft.statements, search.retrieval)
            if view.list_statements() or draft.verdict is Verdict.INSUFFICIENT or not search.rank_evidence():
                return draft
            self._notes += rejected
            failure = _NO_VALID_QUOTE
        self._reading = replace(reader.model_reading, failure=failure)
        self._notes.append(create_note(NoteKind.MODEL_FAILED, reason=failure.text))
        self._answered_by = f"{reader.name}→{self._planner.name}"
        return None

    async def _draft_extractive_view(self, search: SearchSession, question: Question, skill: Skill) -> DraftView:
        """Return a draft that quotes the best evidence."""
        findings = search.collect_findings()
        best = replace(findings, evidence=findings.evidence[: self._budget.evidence_messages])
        return await ExtractiveSynthesizer(self._thresholds.quoted).draft_view(question, skill, best)

    def _build_result(
        self, search: SearchSession, stop_reason: StopReason, synthesis: VerifiedView, skill: Skill
    ) -> RecallResult:
        if synthesis.verdict in _UNANSWERED and stop_reason is StopReason.SUFFICIENT:
            stop_reason = StopReason.NO_GAIN  # The verdict overrides the planner's decision.
        skill_notes = (create_note(NoteKind.SKILL_IGNORED, text=text) for text in skill.notes)
        notes = (*self._notes, *skill_notes, *synthesis.notes)
        evidence = _select_evidence(search.collect_findings(), synthesis, self._budget.evidence_messages)
        truncated = any(len(item.message.content) > self._budget.evidence_chars for item in evidence)
        limits = search.build_limits(self._answered_by, stop_reason, notes, self._reading, truncated=truncated)
        return RecallResult(
            memory_view=synthesis.view,
            evidence=tuple(evidence),
            limits=replace(
                limits,
                sufficiency=_calibrate_findings(search.collect_findings()),
                sufficiency_threshold=synthesis.sufficiency_threshold,
            ),
            verdict=synthesis.verdict,
            conflicts=synthesis.conflicts,
            trace=search.steps,
        )


def _calibrate_findings(findings: SearchFindings) -> float | None:
    return None if findings.sufficiency is None else calibrate_sufficiency(findings.sufficiency)


def _select_evidence(findings: SearchFindings, synthesis: VerifiedView, limit: int) -> Sequence[Evidence]:
    """Return the cited messages and, up to the limit, the best uncited messages, in ranking order.

    Cited messages without a rank, such as neighbors, are listed last.
    """
    cited = {citation.message_id for statement in synthesis.view.list_statements() for citation in statement.citations}
    ranked = [item for item in findings.evidence if item.message.message_id in cited]
    others = [item for item in findings.evidence if item.message.message_id not in cited]
    ranked_ids = {item.message.message_id for item in ranked}
    unranked = [Evidence(message, 0.0) for message in findings.retrieval if message.message_id in cited - ranked_ids]
    kept_ids = {
        other.message.message_id for other in others[: max(0, limit - len(ranked) - len(unranked))]
    } | ranked_ids
    return [*(item for item in findings.evidence if item.message.message_id in kept_ids), *unranked]
