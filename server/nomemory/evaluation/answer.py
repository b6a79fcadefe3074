"""What a method brought for a question, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.evaluation.question import Question
from nomemory.evaluation.view import View


@dataclass(frozen=True, slots=True)
class Found:
    """What a method brought.

    Attributes:
        message_ids: best first, without repetitions.
        sufficiency: how likely it is that this answers the question, if the method says.
        is_supported: whether its verdict is that there is an answer, if it has a verdict.
        is_cut: whether the question had to be shortened to be a valid request.
        view: the memory view, if the method composes one.
    """

    message_ids: tuple[str, ...]
    sufficiency: float | None = None
    is_supported: bool | None = None
    is_cut: bool = False
    view: View | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, what was found, and the cost in milliseconds: the caller's waiting, and the CPU of the server.

    `cpu_ms` is None where it cannot be measured.
    """

    question: Question
    found: Found
    latency_ms: float
    cpu_ms: float | None
