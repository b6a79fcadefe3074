"""Weights of the hybrid ranking, which are based on the measurements in docs/quality.md."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """Weights of the ranking steps. A step with weight 0 is skipped.

    Attributes:
        meaning: weight of the cosine similarity; the lexical score has the weight 1 - `meaning`.
        neighbors: weight of a term in the previous or next message, relative to a term in the message itself.
        speaker: bonus for messages by the person that the question names, or by the user if the question names nobody.
        dates: bonus for messages on a date that the question names.
        concrete: bonus for messages that contain a name, a title or a number.
        occasion: bonus for messages that state when something happened, if the question asks for a time.
        topic: additional weight of terms in the topic clause, the first of several clauses in a Chinese sentence.
        answers: bonus for the message after a question, multiplied by the score of that question.
        asks: penalty for messages without an assertion, or, if authors have names, for messages that end with a
            question.
        around: weight of the mean score of the adjacent messages in the conversation.
        conversation: weight of the mean score of the conversation's best messages.
        shared: weight of the rare terms that a message shares with the best messages (relevance feedback).
    """

    meaning: float = 0.7
    neighbors: float = 0.3
    speaker: float = 0.25
    dates: float = 0.5
    concrete: float = 0.05
    occasion: float = 0.15
    topic: float = 2.0
    answers: float = 0.1
    asks: float = 0.1
    around: float = 0.3
    conversation: float = 0.2
    shared: float = 0.9

    def disable_steps(self, steps: Collection[str]) -> Self:
        """Return the weights with some ranking steps disabled. If `meaning` is disabled, the ranking is lexical."""
        return replace(self, **dict.fromkeys(steps, 0.0))


STEPS: Final = tuple(field.name for field in fields(RankingWeights))
"""The names of the ranking steps."""
