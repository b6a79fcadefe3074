"""A question whose evidence somebody has labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

ADVERSARIAL: Final = "adversarial"
"""The category of questions that sound as if the log answered them."""

CURRENT: Final = "current"
"""The category of questions for what holds now."""

_CONTRADICTORY: Final = "CONFLICTING"


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
        needed: for each thing that an answer has to know, the messages any one of which proves it; empty: not labelled.
        old: messages that state a value which no longer holds.
        verdict: what a recall should say, in the contract's words without their prefix; empty: not labelled.
        language: the question's, such as `en`; empty: not labelled.
        conversations: which conversation each of the user's messages belongs to, by message id, so far as it has one.
    """

    question_id: str
    user_id: str
    text: str
    category: str
    evidence: frozenset[str]
    now: datetime | None
    needed: tuple[frozenset[str], ...] = ()
    old: frozenset[str] = frozenset()
    verdict: str = ""
    language: str = ""
    conversations: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_answerable(self) -> bool:
        """Whether the log answers it."""
        return bool(self.evidence) and self.category != ADVERSARIAL

    @property
    def is_contradictory(self) -> bool:
        """Whether what was said contradicts itself."""
        return self.verdict == _CONTRADICTORY
