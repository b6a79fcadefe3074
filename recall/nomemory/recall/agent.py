"""The loop of a recall: plan and search within a budget, read the neighbours, draft, conclude."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nomemory.recall.grounding.citations import verify
from nomemory.recall.grounding.conclusion import conclude
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import Evidence, Findings
from nomemory.recall.model.limits import StopReason
from nomemory.recall.model.memory_view import Draft, Synthesis, Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.planning.base import Plan, Planner, PlannerFailedError
from nomemory.recall.search.session import OnStep, SearchSession
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.base import Synthesiser, SynthesiserFailedError
from nomemory.recall.tools.bound_tools import BoundTools

_KEPT_FOR_FALLBACK_S: Final = 2.0
"""Seconds of the search time that are reserved for the fallback, in case the planner hangs."""
_DEFAULT_RULE: Final = EnoughRule()
_UNANSWERED: Final = frozenset({Verdict.INSUFFICIENT, Verdict.PENDING})
_PENDING: Final = "messages were stored that are not searchable yet"


class RecallAgent:
    """Answers one question.

    Args:
        tools: bound to the one user.
        planner: decides on the calls.
        fallback_planner: takes over when the planner fails; None: nobody does.
        synthesiser: drafts the answer.
        fallback_synthesiser: takes over when the synthesiser fails or proves nothing; None: nobody does.
        budget: the host's, as tightened by the request.
        rule: the host's rule for how likely it must be that the log answers.
    """

    def __init__(
        self,
        tools: BoundTools,
        planner: Planner,
        fallback_planner: Planner | None,
        synthesiser: Synthesiser,
        fallback_synthesiser: Synthesiser | None,
        budget: Budget,
        rule: EnoughRule = _DEFAULT_RULE,
    ) -> None:
        self._tools = tools
        self._planner = planner
        self._fallback_planner = fallback_planner
        self._synthesiser = synthesiser
        self._fallback_synthesiser = fallback_synthesiser
        self._budget = budget
        self._rule = rule
        self._planned_by = planner.name
        self._notes: list[str] = []

    async def run(self, question: Question, skill: Skill, on_step: OnStep | None = None) -> RecallResult:
        """Search, then conclude. Cancelling it stops all its work at once.

        Raises:
            QueryServiceUnavailableError: there is nothing to read from.
            EmbeddingRefusedError: the caller's own vector of the question does not fit what is read from.
            WriteTokenRefusedError: the write token is none of the log that is read from.
            IndexBehindError: what it covers does not become searchable in time.
        """
        search = SearchSession(self._tools, question, skill, self._budget, on_step)
        stop = await self._search(search)
        self._tools.check_answered()
        await search.take_neighbours()
        evidence = search.ranked()[: self._budget.evidence_messages]
        findings = search.findings()
        draft = await self._draft(question, skill, replace(findings, evidence=evidence))
        synthesis = conclude(question, draft, findings, self._rule)
        if synthesis.verdict is Verdict.INSUFFICIENT and await search.index_behind():
            synthesis = replace(synthesis, verdict=Verdict.PENDING, notes=(*synthesis.notes, _PENDING))
        return self._result(search, stop, evidence, synthesis, skill)

    async def _search(self, search: SearchSession) -> StopReason:
        for iteration in range(1, self._budget.iterations + 1):
            plan = await self._plan(search, iteration)
            if plan is None:
                return StopReason.DEADLINE if search.remaining_s <= 0 else StopReason.NO_GAIN
            if plan.stop:
                await search.decided(plan, iteration)
                return StopReason.SUFFICIENT if search.gained else StopReason.NO_GAIN
            spent = await search.follow(plan, iteration)
            if spent is not None:
                return spent
            if self._tools.unreachable:
                return StopReason.NO_GAIN
        return StopReason.ITERATIONS

    async def _plan(self, search: SearchSession, iteration: int) -> Plan | None:
        """Ask the planner, then the fallback if it fails or is late; None if neither decides in time."""
        situation = search.situation(iteration)
        spare_s = _KEPT_FOR_FALLBACK_S if self._fallback_planner else 0.0
        try:
            async with asyncio.timeout(max(search.remaining_s - spare_s, search.remaining_s / 2, 0)):
                return await self._planner.plan(situation)
        except (PlannerFailedError, TimeoutError):
            if self._fallback_planner is None:
                return None
        self._planned_by = f"{self._planner.name}→{self._fallback_planner.name}"
        self._notes.append(f"the planner {self._planner.name} gave no answer: {self._fallback_planner.name} went on")
        self._planner, self._fallback_planner = self._fallback_planner, None
        return await self._plan(search, iteration)

    async def _draft(self, question: Question, skill: Skill, findings: Findings) -> Draft:
        """Have an answer drafted; the other synthesiser does it if the first fails, takes too long or has no proof."""
        draft = await self._drafted(question, skill, findings)
        other = self._fallback_synthesiser
        if draft is not None and (other is None or not findings.evidence or self._holds(draft, findings)):
            return draft
        failed = "gave no answer" if draft is None else "gave no statement that holds"
        if other is None:
            self._notes.append(f"the synthesiser {self._synthesiser.name} {failed}: no statements")
            return Draft()
        self._notes.append(f"the synthesiser {self._synthesiser.name} {failed}: {other.name} composed the view")
        composed = await other.draft(question, skill, findings)
        unanswered = draft is not None and draft.verdict is Verdict.INSUFFICIENT
        return replace(composed, verdict=Verdict.INSUFFICIENT) if unanswered else composed

    def _holds(self, draft: Draft, findings: Findings) -> bool:
        """Return whether any statement of a draft can be verified; if none, note what was struck."""
        view, struck = verify(draft.statements, findings.retrieval)
        self._notes += () if view.statements() else struck
        return bool(view.statements())

    async def _drafted(self, question: Question, skill: Skill, findings: Findings) -> Draft | None:
        """Return the first synthesiser's draft; None if it fails or takes too long."""
        try:
            async with asyncio.timeout(self._budget.compose_s):
                return await self._synthesiser.draft(question, skill, findings)
        except (SynthesiserFailedError, TimeoutError):
            return None

    def _result(
        self, search: SearchSession, stop: StopReason, evidence: Sequence[Evidence], synthesis: Synthesis, skill: Skill
    ) -> RecallResult:
        if synthesis.verdict in _UNANSWERED and stop is StopReason.SUFFICIENT:
            stop = StopReason.NO_GAIN  # what the planner took to suffice does not
        notes = (*self._notes, *skill.notes, *synthesis.notes)
        truncated = any(len(item.message.content) > self._budget.evidence_chars for item in evidence)
        return RecallResult(
            memory_view=synthesis.view,
            evidence=tuple(evidence),
            limits=search.limits(self._planned_by, stop, notes, truncated=truncated),
            verdict=synthesis.verdict,
            conflicts=synthesis.conflicts,
            trace=search.steps,
        )
