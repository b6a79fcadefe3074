"""How much a recall may do. The host sets it; a request may tighten it, and a skill cannot change it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

EVIDENCE_MESSAGES_MAX: Final = 50
"""The most messages that anybody may have in the evidence of a recall."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The host's limits.

    Attributes:
        iterations: rounds of searching, each of one or more calls.
        tool_calls: calls in all, those that the host makes for neighbours included.
        evidence_messages: messages in the answer's evidence, where the request does not say how many.
        deadline_s: seconds for searching.
        answer_s: seconds until the whole recall has to answer, a chat model's reading included.
        model_s: seconds that one answer of a chat model may take.
        read_messages: messages of the ranking that a chat model reads; 0: there is none.
        read_tokens: tokens that these may take, as estimated.
        result_items: messages that one call of a tool may bring; a ranking brings as many as the evidence may have.
        result_chars: characters of content that one call may show to a planner; they do not bound a ranking.
        evidence_chars: characters of content of one evidence message; longer ones are cut and marked.
        neighbors_before, neighbors_after: what the host takes around an anchor.
        anchors: how many anchors it does that for.
    """

    iterations: int = 3
    tool_calls: int = 12
    evidence_messages: int = 6
    deadline_s: float = 10.0
    answer_s: float = math.inf
    model_s: float = 20.0
    read_messages: int = 0
    read_tokens: int = 4_000
    result_items: int = 50
    result_chars: int = 12_000
    evidence_chars: int = 16_000
    neighbors_before: int = 8
    neighbors_after: int = 0
    anchors: int = 3

    @property
    def ranked_messages(self) -> int:
        """How many messages of the ranking a recall needs: for its evidence, and for a chat model to read."""
        return max(self.evidence_messages, self.read_messages)

    def tightened(
        self,
        *,
        iterations: int = 0,
        tool_calls: int = 0,
        evidence_messages: int = 0,
        deadline_s: float = 0.0,
        answer_s: float = 0.0,
    ) -> Budget:
        """Return this budget with the limits that a request asks for, where they are lower; 0 keeps a limit.

        Evidence is what a request may ask for more of, up to `EVIDENCE_MESSAGES_MAX`.
        """
        return replace(
            self,
            iterations=min(iterations or self.iterations, self.iterations),
            tool_calls=min(tool_calls or self.tool_calls, self.tool_calls),
            evidence_messages=min(evidence_messages or self.evidence_messages, EVIDENCE_MESSAGES_MAX),
            deadline_s=min(deadline_s or self.deadline_s, self.deadline_s),
            answer_s=min(answer_s or self.answer_s, self.answer_s),
        )
