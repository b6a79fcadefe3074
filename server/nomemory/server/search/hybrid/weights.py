"""The weights of the hybrid ranking's steps. docs/quality.md has the figures behind them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the ranking's steps; a step that weighs 0 is left out.

    Attributes:
        meaning: of the cosine, against that of the words: they add up to one.
        beside: what a word in the message right before or after counts, against one in the message itself.
        speaker: for what the person said whom the question names, or, where it names nobody, the user.
        dates: for what was said on a date that the question names.
        concrete: for a message that names something: a name, a title, a figure.
        occasion: where the question asks when, for a message that says when something happened.
        topic: what more a word counts that stands in the first clause of a Chinese sentence of several.
        answers: for what stands right after a question, times how well that question fits.
        asks: taken off what asserts nothing; between people with names, off what ends with a question.
        around: for what is said around, in the same conversation.
        conversation: for the conversation as a whole: the mean of its best messages.
        shared: for what shares rare words with the best messages: the other half of what they say.
    """

    meaning: float = 0.65
    beside: float = 0.3
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

    def without(self, steps: Collection[str]) -> Self:
        """Return the weights with some steps left out. Without `meaning` the words decide alone."""
        return replace(self, **dict.fromkeys(steps, 0.0))


STEPS: Final = tuple(field.name for field in fields(Weights))
"""The names of the steps, in the order in which they are taken."""
