"""A skill's template for one intent: where to begin, what to ask as well, whether to look around."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from nomemory.recall.intent.topics import Hypothesis

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_QUERY_CHARS_MAX: Final = 1_000


class TemplateIntent(Enum):
    """The intents that a template may be for."""

    PREFERENCES = "preferences"
    PROFILE = "profile"
    CONSTRAINTS = "constraints"
    SCHEDULE = "schedule"


INTENT_OF: Final = {
    Hypothesis.PREFERENCE: TemplateIntent.PREFERENCES,
    Hypothesis.FORMAT: TemplateIntent.PREFERENCES,
    Hypothesis.PROFILE: TemplateIntent.PROFILE,
    Hypothesis.PROJECT: TemplateIntent.PROFILE,
    Hypothesis.CONSTRAINT: TemplateIntent.CONSTRAINTS,
    Hypothesis.SCHEDULE: TemplateIntent.SCHEDULE,
}
"""What a question looks for, as the sections of a memory view sort it. A promise is none of them."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A query to ask as well; `{question}` in it is the sentence that asks, `{words}` its content words."""

    text: str
    line: int

    def query(self, question: str, words: str) -> str:
        """Return the query with the placeholders filled in."""
        given = {"question": question, "words": words}
        return " ".join(_PLACEHOLDER.sub(lambda match: given[match[1]], self.text).split())[:_QUERY_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Template:
    """How to search where a question has one intent; where its section begins in the skill.

    `first` is the tool to begin with, None: as without a template. `neighbors` asks for what stands around the best
    hits; False and None leave it to the host.
    """

    intent: TemplateIntent
    first: str | None = None
    rewrites: tuple[Rewrite, ...] = ()
    neighbors: bool | None = None
    file: str = ""
    line: int = 0


def unknown_placeholders(text: str) -> bool:
    """Return whether a rewrite has a placeholder that nothing fills in."""
    return any(name not in {"question", "words"} for name in _PLACEHOLDER.findall(text))
