"""Runs the recall of a request: the one place where the server calls `nomemory.recall`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nomemory.recall.api import OnStep, recall
from nomemory.recall.context.builder import build_context
from nomemory.recall.context.request import ContextRequest
from nomemory.recall.context.result import BuiltContext
from nomemory.recall.llm.chat_model import ChatModel
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.planning.base import Planner
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.api.validation.recall_requests import RecallQuery

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
        return await recall(
            self.stub,
            user_id,
            query.question,
            skill=skill,
            planner=self.answered_by.planner(),
            model=self.answered_by.model,
            budget=query.budget,
            rule=self.rule,
            on_step=on_step,
            metadata=self.metadata,
            at_least=query.at_least,
        )

    async def build_context(self, user_id: str, request: ContextRequest, timeout_s: float) -> BuiltContext:
        """Select the messages of one user for a prompt."""
        return await build_context(self.stub, user_id, request, timeout_s, self.metadata)
