"""A question whose evidence somebody has labelled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

ADVERSARIAL: Final = "adversarial"
"""The category of questions that sound as if the log answered them."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one user.

    Attributes:
        question_id: what results call it.
        user_id: whose messages answer it.
        text: the question.
        category: a word of the set's own.
        evidence: ids of the messages that prove the answer; empty where nothing does.
        now: when it is asked; what was said then or later is not looked at. None: everything is.
    """

    question_id: str
    user_id: str
    text: str
    category: str
    evidence: frozenset[str]
    now: datetime | None

    @property
    def is_answerable(self) -> bool:
        """Whether the log answers it."""
        return bool(self.evidence) and self.category != ADVERSARIAL
