"""Execution of recalls. No other module of the server runs the recall agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nomemory.recall.api import OnStep, recall
from nomemory.recall.context.builder import build_context
from nomemory.recall.context.request import ContextRequest
from nomemory.recall.context.result import BuiltContext
from nomemory.recall.llm.chat_model import ChatModel
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import SufficiencyThresholds
from nomemory.recall.planning.base import Planner
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.api.services.chat_model_monitor import ChatModelMonitor
from nomemory.server.api.validation.recall_requests import RecallQuery

Metadata = Sequence[tuple[str, str]]


def _choose_no_planner() -> None:
    """Return None, which selects the rule-based planner."""


@dataclass(frozen=True, slots=True)
class AnswerStrategy:
    """The configured planner and chat model of recalls.

    Attributes:
        planner: creates the planner of a recall, or returns None for the rule-based planner.
        model: the chat model that reads the retrieved messages and composes the answer; None if rules do both.
    """

    planner: Callable[[], Planner | None] = _choose_no_planner
    model: ChatModel | None = None


@dataclass(frozen=True, slots=True)
class RecallRunner:
    """Runs recalls.

    Attributes:
        stub: the QueryService stub that the recalls read messages from.
        metadata: the metadata of every read, such as the credentials for a remote QueryService.
        monitor: records the failures and the token usage of the chat model.
    """

    stub: QueryStub
    metadata: Metadata
    strategy: AnswerStrategy
    thresholds: SufficiencyThresholds
    monitor: ChatModelMonitor

    async def run(self, user_id: str, query: RecallQuery, skill: Skill, on_step: OnStep) -> RecallResult:
        """Run a recall that reads only the messages of one user."""
        result = await recall(
            self.stub,
            user_id,
            query.question,
            skill=skill,
            planner=self.strategy.planner(),
            model=self.strategy.model,
            budget=query.budget,
            thresholds=self.thresholds,
            on_step=on_step,
            metadata=self.metadata,
            at_least=query.at_least,
        )
        self.monitor.record(result.limits.reading)
        return result

    async def build_context(self, user_id: str, request: ContextRequest, timeout_s: float) -> BuiltContext:
        """Select messages of one user for the prompt of a chat model."""
        return await build_context(self.stub, user_id, request, timeout_s, self.metadata)
