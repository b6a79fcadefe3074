"""The chat model protocol. The endpoint client is a separate module because its import takes half a second."""

from __future__ import annotations

from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.llm.prompt import Prompt


class ChatFailedError(RecallError):
    """The model returned no answer. The message contains no content."""


class ChatModel(Protocol):
    """Answers prompts with text. Instances may serve concurrent recalls."""

    async def ask(self, prompt: Prompt, within_s: float | None = None) -> str:
        """Return the model's answer, within the model's timeout or `within_s` seconds, whichever is shorter.

        Raises:
            ChatFailedError: the model returned no answer.
        """
