"""Resource limits of a recall. The host sets the limits, a request may change them, and a skill cannot."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

MAX_EVIDENCE_MESSAGES: Final = 50
"""Maximum number of evidence messages that a request may ask for."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Resource limits for one recall.

    Attributes:
        iterations: maximum number of search rounds, each with one or more calls.
        tool_calls: maximum number of tool calls, including the calls that read the neighbors of anchors.
        evidence_messages: number of evidence messages in the result, unless the request sets it.
        deadline_s: time limit for the search phase, in seconds, without the time of requests to a chat model.
        answer_s: time limit for the whole recall, in seconds, including the requests to a chat model.
        model_s: time limit for one chat model response, in seconds.
        read_messages: maximum number of ranked messages that a chat model reads; 0 for no model.
        read_tokens: maximum number of estimated tokens in the ranked messages that a chat model reads.
        result_items: maximum number of messages that a tool call returns. For a ranking, `evidence_messages` is the
            maximum if it is higher.
        result_chars: maximum number of characters that a tool call returns to a planner; not applied to rankings.
        evidence_chars: maximum number of characters per evidence message in an API response.
        neighbors_before, neighbors_after: number of messages to read before and after an anchor.
        anchors: number of top-ranked messages whose neighbors are read.
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
    def ranked_message_count(self) -> int:
        """The number of messages to rank: enough for the evidence and for the chat model."""
        return max(self.evidence_messages, self.read_messages)

    def apply_request_limits(
        self,
        *,
        iterations: int = 0,
        tool_calls: int = 0,
        evidence_messages: int = 0,
        deadline_s: float = 0.0,
        answer_s: float = 0.0,
    ) -> Budget:
        """Return a copy in which lower limits of a request replace the limits of the host; 0 keeps a limit.

        A request may also raise `evidence_messages`, up to `MAX_EVIDENCE_MESSAGES`.
        """
        return replace(
            self,
            iterations=min(iterations or self.iterations, self.iterations),
            tool_calls=min(tool_calls or self.tool_calls, self.tool_calls),
            evidence_messages=min(evidence_messages or self.evidence_messages, MAX_EVIDENCE_MESSAGES),
            deadline_s=min(deadline_s or self.deadline_s, self.deadline_s),
            answer_s=min(answer_s or self.answer_s, self.answer_s),
        )
