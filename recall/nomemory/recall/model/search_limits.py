"""What a recall searched, and why it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nomemory.recall.model.note import Note
from nomemory.recall.model.question import Role
from nomemory.text.time_range import TimeRange


class StopReason(Enum):
    """Why a recall stopped."""

    SUFFICIENT = "sufficient"
    NO_GAIN = "no_gain"
    ITERATIONS = "iterations"
    TOOL_CALLS = "tool_calls"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Reading:
    """How often a chat model was asked, and how many different messages it was shown."""

    calls: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What was searched: the widest range and role, and how much was found.

    `sufficiency` is how likely it is that the log answers, 0 to 1; None: no search said. `enough` is from where on that
    was enough; None: the verdict does not rest on it. `reading` is what a chat model did.
    """

    time_range: TimeRange
    role: Role
    messages_considered: int
    tool_calls: int
    iterations: int
    planner: str
    stop_reason: StopReason
    truncated: bool
    index_lagging: bool
    widened: bool
    skill: str
    dropped_arguments: int
    notes: tuple[Note, ...] = ()
    sufficiency: float | None = None
    enough: float | None = None
    reading: Reading = Reading()
