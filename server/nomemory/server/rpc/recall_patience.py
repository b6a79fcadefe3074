"""Planners and synthesisers that leave the event loop to other reads while a model thinks."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.evidence import Findings
from nomemory.recall.model.memory_view import Draft
from nomemory.recall.model.question import Question
from nomemory.recall.planning.base import Plan, Planner, Situation
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.base import Synthesiser
from nomemory.server.admission.ticket import waiting_elsewhere


@dataclass(frozen=True, slots=True)
class PatientPlanner:
    """Implements `Planner` over another."""

    within: Planner

    @property
    def name(self) -> str:
        """The name of the planner within."""
        return self.within.name

    async def plan(self, situation: Situation) -> Plan:
        """Decide what to do next."""
        async with waiting_elsewhere():
            return await self.within.plan(situation)


@dataclass(frozen=True, slots=True)
class PatientSynthesiser:
    """Implements `Synthesiser` over another."""

    within: Synthesiser

    @property
    def name(self) -> str:
        """The name of the synthesiser within."""
        return self.within.name

    async def draft(self, question: Question, skill: Skill, findings: Findings) -> Draft:
        """Draft statements from the evidence that was found."""
        async with waiting_elsewhere():
            return await self.within.draft(question, skill, findings)
