"""The protocol of synthesisers, which draft statements from evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.memory_view import DraftStatement
from nomemory.recall.model.question import Question
from nomemory.recall.skills.skill import Skill


class SynthesiserFailedError(RecallError):
    """The synthesiser cannot go on, for example because its model does not answer. The text holds no content."""


class Synthesiser(Protocol):
    """Drafts statements. Code checks them afterwards."""

    @property
    def name(self) -> str:
        """`rules` or `llm`."""

    async def draft(self, question: Question, skill: Skill, evidence: Sequence[Evidence]) -> list[DraftStatement]:
        """Draft statements from evidence, best first.

        Raises:
            SynthesiserFailedError: it cannot.
        """
