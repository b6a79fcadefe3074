"""Message classes by length and form. The class determines a multiplier of the lexical score."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from nomemory.text.attachments import remove_attachments
from nomemory.text.question_detection import ends_in_question

_LENGTHS: Final = (8, 24, 72)
"""Numbers of terms at which the next class starts. A long message may contain a term without being about it."""

_QUESTION_STEPS: Final = 2
"""Number of classes that are added for a question, because questions rarely contain answers."""

CLASSES: Final = range(len(_LENGTHS) + 1 + _QUESTION_STEPS)
"""All classes. Class 0 is a short statement. Higher classes are less informative."""

_STEPS: Final = 16
_END_CHARS: Final = 40


def classify_message(content: str, terms: int) -> int:
    """Return the class of a message with this content and number of terms."""
    return bisect_right(_LENGTHS, terms) + (_QUESTION_STEPS if is_question(content) else 0)


def is_question(content: str) -> bool:
    """Return whether a message ends with a question."""
    return ends_in_question(remove_attachments(content)[-_END_CHARS:])


def get_class_weight(number: int) -> float:
    """Return the score multiplier of a class: 1 for class 0, and 1/16 less for each further class."""
    return 1 - number / _STEPS
