"""Interface of chat models. The implementation for endpoints is in `client.py`, whose import takes half a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.model_reading import ModelFailure, ModelFailureKind, TokenUsage


class ChatFailedError(RecallError):
    """A chat model returned no answer. The error message contains no text from the prompt.

    Attributes:
        failure: the kind of failure, with a fixed text.
    """

    def __init__(self, kind: ModelFailureKind, text: str) -> None:
        super().__init__(text)
        self.failure = ModelFailure(kind, text)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The text of a chat model's answer. `usage` is None if the endpoint reports no token counts."""

    text: str
    usage: TokenUsage | None = None


class ChatModel(Protocol):
    """A chat model. One instance serves concurrent recalls."""

    async def ask(self, prompt: Prompt, within_s: float | None = None) -> ChatAnswer:
        """Return the model's answer, within the model's timeout or `within_s` seconds, whichever is shorter.

        Raises:
            ChatFailedError: the model returned no answer.
        """
