"""Planners and chat models that leave the event loop to other reads while they think."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.llm.chat_model import ChatModel
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.planning.base import Plan, Planner, Situation
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
class PatientModel:
    """Implements `ChatModel` over another."""

    within: ChatModel

    async def ask(self, prompt: Prompt, within_s: float | None = None) -> str:
        """Return the text of the model's answer."""
        async with waiting_elsewhere():
            return await self.within.ask(prompt, within_s)
