"""The chat model protocol. The endpoint client is a separate module because its import takes half a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nomemory.recall.errors import RecallError
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.model_reading import ModelFailure, ModelFailureKind, TokenUsage


class ChatFailedError(RecallError):
    """The model returned no answer. The message contains no content.

    Attributes:
        failure: the reason.
    """

    def __init__(self, kind: ModelFailureKind, text: str) -> None:
        super().__init__(text)
        self.failure = ModelFailure(kind, text)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The text of an answer, and the tokens of the request; None if the endpoint does not report them."""

    text: str
    usage: TokenUsage | None = None


class ChatModel(Protocol):
    """Answers prompts with text. Instances may serve concurrent recalls."""

    async def ask(self, prompt: Prompt, within_s: float | None = None) -> ChatAnswer:
        """Return the model's answer, within the model's timeout or `within_s` seconds, whichever is shorter.

        Raises:
            ChatFailedError: the model returned no answer.
        """
