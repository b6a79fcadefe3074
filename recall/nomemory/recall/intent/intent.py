"""The intent of a question: hypotheses, whose words would decide them, and which tool to begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nomemory.recall.intent.topics import TOPICS, Hypothesis
from nomemory.recall.model.question import Role
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, SEMANTIC_SEARCH
from nomemory.text.question_reading import QuestionReading


@dataclass(frozen=True, slots=True)
class Intent:
    """The intent of a question.

    Attributes:
        hypotheses: up to three, the strongest first; none: anything.
        role: whose words would decide it.
        first_tool: what suits it best.
    """

    hypotheses: tuple[Hypothesis, ...]
    role: Role
    first_tool: str


_MAX_HYPOTHESES: Final = 3


def read_intent(reading: QuestionReading) -> Intent:
    """Return the intent of a question."""
    topics = [topic for topic in TOPICS if topic.asked.search(reading.asked)]
    hypotheses = tuple(dict.fromkeys(topic.hypothesis for topic in topics))[:_MAX_HYPOTHESES]
    return Intent(
        hypotheses=hypotheses,
        role=Role.ANY if reading.asks_for_promise else Role.USER,
        first_tool=_first_tool(hypotheses, reading),
    )


def _first_tool(hypotheses: tuple[Hypothesis, ...], reading: QuestionReading) -> str:
    if reading.phrases:
        return LEXICAL_SEARCH
    return MESSAGES_LIST if hypotheses[:1] == (Hypothesis.SCHEDULE,) else SEMANTIC_SEARCH
