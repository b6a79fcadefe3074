"""In which section of the memory view the answer to a question stands.

A view answers one question, so its statements stand together. What is asked for decides, not how a message is worded.
"""

from __future__ import annotations

from typing import Final

from nomemory.recall.intent.intent import read_intent
from nomemory.recall.intent.topics import Hypothesis
from nomemory.recall.model.memory_view import Section
from nomemory.text.question_reading import QuestionReading

_SECTIONS: Final = {
    Hypothesis.PREFERENCE: Section.PREFERENCES,
    Hypothesis.FORMAT: Section.PREFERENCES,
    Hypothesis.CONSTRAINT: Section.CONSTRAINTS,
}


def section_of(reading: QuestionReading) -> Section:
    """Return the section of a question's strongest hypothesis: the profile, unless it asks for likes or for limits."""
    hypotheses = read_intent(reading).hypotheses
    return _SECTIONS.get(hypotheses[0], Section.PROFILE) if hypotheses else Section.PROFILE
