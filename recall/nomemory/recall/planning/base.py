"""The planner protocol. Planners decide the next tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.question import Question
from nomemory.recall.model.step import JsonValue, RecallStep
from nomemory.recall.skills.loader import Skill


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call from a planner. The arguments are untrusted; the bound tools validate them.

    Results of a call with a lower `weight` rank lower, and their scores are added to the scores of other calls.
    """

    tool: str
    arguments: Mapping[str, JsonValue]
    thought: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A planner's decision for one round: calls, or a stop."""

    calls: tuple[ToolCall, ...] = ()
    stop: bool = False
    thought: str = ""


@dataclass(frozen=True, slots=True)
class PlanningState:
    """The state that a planner sees.

    `steps` are all calls with their results, including the host's own calls. `ranked` is the evidence so far, best
    first. `remaining_calls` is the number of calls left in the host's budget.
    """

    question: Question
    skill: Skill
    budget: Budget
    iteration: int
    remaining_calls: int
    steps: tuple[RecallStep, ...] = field(default=())
    ranked: tuple[Evidence, ...] = field(default=())


class PlannerFailedError(RecallError):
    """The planner cannot continue, for example because its model does not respond. The message contains no content."""


class Planner(Protocol):
    """Plans each round of one recall."""

    @property
    def name(self) -> str:
        """The planner's name, such as `rules` or `llm`."""

    async def plan(self, state: PlanningState) -> Plan:
        """Return the plan for the next round.

        Raises:
            PlannerFailedError: the planner cannot decide. The planner has made no calls.
        """
