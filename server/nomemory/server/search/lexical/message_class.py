"""The class of a message: its length and whether it asks a question, which say how informative it is."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from nomemory.text.asking import ends_asking
from nomemory.text.attachments import without_attachments

_LENGTHS: Final = (8, 24, 72)
"""Numbers of terms from which a message counts as longer. A long one may hold a word without being about it."""

_QUESTION_STEPS: Final = 2
"""Number of classes by which a question counts as longer: a question seldom answers."""

CLASSES: Final = range(len(_LENGTHS) + 1 + _QUESTION_STEPS)
"""All classes: 0 is a short statement, and each further class is less informative."""

_STEPS: Final = 16
_END_CHARS: Final = 40


def message_class(content: str, terms: int) -> int:
    """Return the class of a message with a number of terms. It depends on nothing but the message."""
    return bisect_right(_LENGTHS, terms) + (_QUESTION_STEPS if is_question(content) else 0)


def is_question(content: str) -> bool:
    """Return whether a message ends with a question."""
    return ends_asking(without_attachments(content)[-_END_CHARS:])


def class_weight(number: int) -> float:
    """Return the score multiplier of a class: 1 for a short statement, a sixteenth less for each class."""
    return 1 - number / _STEPS
