"""A synthesiser that asks a language model."""

from __future__ import annotations

import time
from typing import ClassVar

from nomemory.recall.llm.client import ChatEndpoint
from nomemory.recall.llm.errors import ChatFailedError
from nomemory.recall.llm.json_answer import BadAnswerError
from nomemory.recall.llm.prompt import DEFAULT_BOUNDS, Prompt, PromptBounds
from nomemory.recall.model.evidence import Findings
from nomemory.recall.model.memory_view import Draft
from nomemory.recall.model.question import Question
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.base import SynthesiserFailedError
from nomemory.recall.synthesis.llm_answer import draft_in
from nomemory.recall.synthesis.prompt import synthesis_prompt


class LlmSynthesiser:
    """Implements `Synthesiser`. It may serve any number of recalls at a time.

    Args:
        endpoint: where the model is; shared, not closed here.
        tries: how often it asks for an answer that can be used.
        deadline_s: seconds that all of them may take.
        bounds: how long prompts may be.
    """

    name: ClassVar[str] = "llm"

    def __init__(
        self,
        endpoint: ChatEndpoint,
        *,
        tries: int = 2,
        deadline_s: float = 30.0,
        bounds: PromptBounds = DEFAULT_BOUNDS,
    ) -> None:
        self._endpoint = endpoint
        self._tries = tries
        self._deadline_s = deadline_s
        self._bounds = bounds

    async def draft(self, question: Question, skill: Skill, findings: Findings) -> Draft:
        """Draft an answer; without evidence there is none, and nobody is asked.

        Raises:
            SynthesiserFailedError: the endpoint gives no answer, or none that can be used.
        """
        if not findings.evidence:
            return Draft()
        deadline = time.monotonic() + self._deadline_s
        notes: list[str] = []
        while len(notes) < self._tries:
            prompt = synthesis_prompt(question, skill, findings, notes, self._bounds)
            try:
                return draft_in(await self._answer(prompt, deadline - time.monotonic()))
            except BadAnswerError as bad:
                notes.append(str(bad))
        raise SynthesiserFailedError(f"the model gave {len(notes)} answers that cannot be used")

    async def _answer(self, prompt: Prompt, within_s: float) -> str:
        try:
            return await self._endpoint.ask(prompt, within_s)
        except ChatFailedError as failure:
            raise SynthesiserFailedError(str(failure)) from None
