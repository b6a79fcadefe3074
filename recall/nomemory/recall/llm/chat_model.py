"""What answers prompts. The client of an endpoint is beside it: importing that takes half a second."""

from __future__ import annotations

from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.llm.prompt import Prompt


class ChatFailedError(RecallError):
    """There is no answer. The text holds no content."""


class ChatModel(Protocol):
    """Answers a prompt with a text. It may serve any number of recalls at a time."""

    async def ask(self, prompt: Prompt, within_s: float | None = None) -> str:
        """Return the text of the model's answer, within its own timeout or fewer seconds.

        Raises:
            ChatFailedError: there is none.
        """
