"""Runs the recall of a request: the one place where the server calls `nomemory.recall`.

Planners and chat models leave the event loop to other reads while they think.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nomemory.recall.api import OnStep, recall
from nomemory.recall.llm.chat_model import ChatModel
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.planning.base import Plan, Planner, Situation
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.admission.fair_slots import waiting_elsewhere
from nomemory.server.rpc.decode_recall import RecallQuery


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


Metadata = Sequence[tuple[str, str]]


def _rules() -> None:
    """Return None: the rules."""


@dataclass(frozen=True, slots=True)
class AnsweredBy:
    """Who goes on from the ranking.

    Attributes:
        planner: makes the planner of one recall; it returns None for the rules.
        model: reads what was found, and composes the view; None: the rules.
    """

    planner: Callable[[], Planner | None] = _rules
    model: ChatModel | None = None


@dataclass(frozen=True, slots=True)
class RecallHost:
    """Recalls on behalf of requests.

    Attributes:
        stub: where messages are read from.
        metadata: sent with every read: this process's own credentials, where the reads cross a network.
        answered_by: who goes on from the ranking.
        rule: how likely it must be that the log answers before a verdict says so.
    """

    stub: QueryStub
    metadata: Metadata
    answered_by: AnsweredBy
    rule: EnoughRule

    async def ask(self, user_id: str, query: RecallQuery, skill: Skill, on_step: OnStep) -> RecallResult:
        """Recall for one user, with a planner made for this recall."""
        planner, model = self.answered_by.planner(), self.answered_by.model
        return await recall(
            self.stub,
            user_id,
            query.question,
            skill=skill,
            planner=planner and PatientPlanner(planner),
            model=model and PatientModel(model),
            budget=query.budget,
            rule=self.rule,
            on_step=on_step,
            metadata=self.metadata,
            at_least=query.at_least,
        )
