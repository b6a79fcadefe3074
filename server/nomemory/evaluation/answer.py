"""What a method brought for a question, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nomemory.evaluation.question import Question
from nomemory.evaluation.view import View

_UNANSWERED: Final = frozenset({"INSUFFICIENT", "PENDING"})


@dataclass(frozen=True, slots=True)
class Found:
    """What a method brought.

    Attributes:
        message_ids: best first, without repetitions.
        sufficiency: how likely it is that this answers the question, if the method says.
        verdict: what it says of the answer, in the contract's words without their prefix; empty: nothing.
        is_cut: whether the question had to be shortened to be a valid request.
        view: the memory view, if the method composes one.
        prompts: what a model was asked for it, if that is written down.
        is_waiting: whether a model's answer is missing, so that what was found is not to be judged.
    """

    message_ids: tuple[str, ...]
    sufficiency: float | None = None
    verdict: str = ""
    is_cut: bool = False
    view: View | None = None
    prompts: tuple[str, ...] = ()
    is_waiting: bool = False

    @property
    def is_supported(self) -> bool | None:
        """Whether its verdict is that there is an answer; None: it has no verdict."""
        return self.verdict not in _UNANSWERED if self.verdict else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, what was found, and the cost in milliseconds: the caller's waiting, and the CPU of the server.

    `cpu_ms` is None where it cannot be measured.
    """

    question: Question
    found: Found
    latency_ms: float
    cpu_ms: float | None
