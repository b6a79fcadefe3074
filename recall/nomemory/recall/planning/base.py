"""The protocol of planners, which decide the next calls of tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.question import Question
from nomemory.recall.model.step import JsonValue, Step
from nomemory.recall.skills.loader import Skill


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a planner wants. Its arguments are not trusted: the bound tools check them.

    Results of a call with a lower `weight` count less, and add to those of the others.
    """

    tool: str
    arguments: Mapping[str, JsonValue]
    thought: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a planner decides in one round: calls to make, or to stop."""

    calls: tuple[ToolCall, ...] = ()
    stop: bool = False
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a planner sees.

    `steps` are all calls so far with what they brought, those that the host made itself included. `ranked` is the
    evidence so far, best first. `remaining_calls` counts down to the end of the host's budget.
    """

    question: Question
    skill: Skill
    budget: Budget
    iteration: int
    remaining_calls: int
    steps: tuple[Step, ...] = field(default=())
    ranked: tuple[Evidence, ...] = field(default=())


class PlannerFailedError(RecallError):
    """The planner cannot go on, for example because its model does not answer. The text holds no content."""


class Planner(Protocol):
    """Decides, round by round. One instance serves one recall."""

    @property
    def name(self) -> str:
        """`rules`, `llm`, or what a planner of another package calls itself."""

    async def plan(self, situation: Situation) -> Plan:
        """Decide what to do next.

        Raises:
            PlannerFailedError: it cannot decide; nothing was done.
        """
