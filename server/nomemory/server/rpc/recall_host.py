"""Runs the recall of a request: the one place where the server calls `nomemory.recall`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nomemory.recall.api import OnStep, recall
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.planning.base import Planner
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.base import Synthesiser
from nomemory.recall.tools.bound_tools import QueryStub
from nomemory.server.rpc.decode_recall import RecallQuery
from nomemory.server.rpc.recall_patience import PatientPlanner, PatientSynthesiser

Metadata = Sequence[tuple[str, str]]


def _rules() -> None:
    """Return None: the rules."""


@dataclass(frozen=True, slots=True)
class PlannedBy:
    """Makes the planner and the synthesiser of one recall; None: the rules."""

    planner: Callable[[], Planner | None] = _rules
    synthesiser: Callable[[], Synthesiser | None] = _rules


@dataclass(frozen=True, slots=True)
class RecallHost:
    """Recalls on behalf of requests.

    Attributes:
        stub: where messages are read from.
        metadata: sent with every read: this process's own credentials, where the reads cross a network.
        planned_by: who plans and who composes.
        rule: how likely it must be that the log answers before a verdict says so.
    """

    stub: QueryStub
    metadata: Metadata
    planned_by: PlannedBy
    rule: EnoughRule

    async def ask(self, user_id: str, query: RecallQuery, skill: Skill, on_step: OnStep) -> RecallResult:
        """Recall for one user, with a planner and a synthesiser made for this recall."""
        planner, synthesiser = self.planned_by.planner(), self.planned_by.synthesiser()
        return await recall(
            self.stub,
            user_id,
            query.question,
            skill=skill,
            planner=planner and PatientPlanner(planner),
            synthesiser=synthesiser and PatientSynthesiser(synthesiser),
            budget=query.budget,
            rule=self.rule,
            on_step=on_step,
            metadata=self.metadata,
            at_least=query.at_least,
        )
