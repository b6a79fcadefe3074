"""The form of a message: its length and whether it asks, which say how informative it is."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from nomemory.text.asking import ends_asking
from nomemory.text.attachments import without_attachments

_LENGTHS: Final = (8, 24, 72)
"""Numbers of terms from which a message counts as longer. A long one may hold a word without being about it."""

_ASKS: Final = 2
"""By how many steps a question counts as longer: a question seldom answers."""

FORMS: Final = range(len(_LENGTHS) + 1 + _ASKS)
"""All forms: 0 is a short statement, and each step is less informative."""

_STEPS: Final = 16

_END_CHARS: Final = 40


def form_of(content: str, terms: int) -> int:
    """Return the form of a message that has so many terms. It depends on nothing but the message."""
    return bisect_right(_LENGTHS, terms) + (_ASKS if asks(content) else 0)


def asks(content: str) -> bool:
    """Return whether a message ends by asking."""
    return ends_asking(without_attachments(content)[-_END_CHARS:])


def worth(form: int) -> float:
    """Return the share of the weights of what is found that a message scores: 1 if it is a short statement."""
    return 1 - form / _STEPS
