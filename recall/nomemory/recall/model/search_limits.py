"""Scope, results and stop reason of the search phase of a recall."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from nomemory.recall.model.model_reading import ModelReading
from nomemory.recall.model.note import Note
from nomemory.recall.model.question import Role
from nomemory.text.time_range import TimeRange


class StopReason(Enum):
    """Reason why a recall stopped searching."""

    SUFFICIENT = "sufficient"
    NO_GAIN = "no_gain"
    ITERATIONS = "iterations"
    TOOL_CALLS = "tool_calls"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The searched scope, the number of results and the stop reason of a recall.

    `time_range` and `role` are the smallest scope that contains all searched scopes.
    `sufficiency` is the probability that the message log contains the answer; None if no search estimated it.
    `sufficiency_threshold` is the minimum for the verdict SUPPORTED; None if the verdict does not depend on it.
    `reading` describes the work of a chat model. `empty_time_ranges` are time ranges in the question that contain no
    messages.
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
    sufficiency_threshold: float | None = None
    reading: ModelReading = field(default_factory=ModelReading)
    empty_time_ranges: tuple[TimeRange, ...] = ()
