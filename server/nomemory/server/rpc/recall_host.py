"""Runs the recall of a request: the one place where the server calls `nomemory.recall`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nomemory.recall.api import OnStep, recall
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.planning.base import Planner
from nomemory.recall.skills.skill import Skill
from nomemory.recall.synthesis.base import Synthesiser
from nomemory.recall.tools.bound_tools import QueryStub
from nomemory.server.rpc.decode_recall import RecallQuery

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RecallHost:
    """Recalls on behalf of requests.

    Attributes:
        stub: where messages are read from.
        metadata: sent with every read: this process's own credentials, where the reads cross a network.
        planner: makes the planner of one recall; None: the rules.
        synthesiser: makes the synthesiser of one recall; None: the rules.
        rule: how likely it must be that the log answers before a verdict says so.
    """

    stub: QueryStub
    metadata: Metadata
    planner: Callable[[], Planner | None]
    synthesiser: Callable[[], Synthesiser | None]
    rule: EnoughRule

    async def ask(self, user_id: str, query: RecallQuery, skill: Skill, on_step: OnStep) -> RecallResult:
        """Recall for one user, with a planner and a synthesiser made for this recall."""
        return await recall(
            self.stub,
            user_id,
            query.question,
            skill=skill,
            planner=self.planner(),
            synthesiser=self.synthesiser(),
            budget=query.budget,
            rule=self.rule,
            on_step=on_step,
            metadata=self.metadata,
        )
