"""The protocol of synthesisers, which draft statements from evidence."""

from __future__ import annotations

from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.model.evidence import Findings
from nomemory.recall.model.memory_view import Draft
from nomemory.recall.model.question import Question
from nomemory.recall.skills.loader import Skill


class SynthesiserFailedError(RecallError):
    """The synthesiser cannot go on, for example because its model does not answer. The text holds no content."""


class Synthesiser(Protocol):
    """Drafts an answer. Whatever it says is checked afterwards by code."""

    @property
    def name(self) -> str:
        """`rules` or `llm`."""

    async def draft(self, question: Question, skill: Skill, findings: Findings) -> Draft:
        """Draft statements from the evidence that was found; a verdict and conflicts are welcome.

        Raises:
            SynthesiserFailedError: it cannot.
        """
