"""Who composes statements from evidence: the protocol of synthesisers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.memory_view import DraftStatement
from nomemory.recall.model.question import Question
from nomemory.recall.skills.skill import Skill


class SynthesiserFailedError(RecallError):
    """The synthesiser cannot go on (its model does not answer): the host takes another. Holds no content."""


class Synthesiser(Protocol):
    """Drafts statements. Whatever it says is checked afterwards by code."""

    @property
    def name(self) -> str:
        """`rules` or `llm`."""

    async def draft(self, question: Question, skill: Skill, evidence: Sequence[Evidence]) -> list[DraftStatement]:
        """Draft statements from evidence, best first.

        Raises:
            SynthesiserFailedError: it cannot.
        """
