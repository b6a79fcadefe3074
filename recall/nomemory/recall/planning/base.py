"""Interface of planners, which decide the tool calls of a recall."""

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
    """A tool call that a planner requests.

    The arguments are not trusted; `BoundTools` validates them. `weight` is below 1 for an additional query, such as a
    skill's rewrite. The scores of an additional query are reduced, and added to the scores of other calls.
    """

    tool: str
    arguments: Mapping[str, JsonValue]
    thought: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A planner's decision for one round: the tool calls to make, or the end of the search."""

    calls: tuple[ToolCall, ...] = ()
    stop: bool = False
    thought: str = ""


@dataclass(frozen=True, slots=True)
class PlanningState:
    """State of a recall from which a planner decides the next round.

    `steps` are all tool calls so far, including calls that no planner requested. `ranked` is the evidence so far, best
    first. `remaining_calls` is the number of calls that the budget still allows.
    """

    question: Question
    skill: Skill
    budget: Budget
    iteration: int
    remaining_calls: int
    steps: tuple[RecallStep, ...] = field(default=())
    ranked: tuple[Evidence, ...] = field(default=())


class PlannerFailedError(RecallError):
    """A planner cannot continue, for example because its model does not respond.

    The error message contains no message content.
    """


class Planner(Protocol):
    """Decides the tool calls of each round. A planner serves only one recall."""

    @property
    def name(self) -> str:
        """The planner's name, such as `rules` or `llm`."""

    async def plan(self, state: PlanningState) -> Plan:
        """Decide the tool calls of the next round.

        Raises:
            PlannerFailedError: the planner cannot decide.
        """
