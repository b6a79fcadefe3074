"""Statistics of the chat model's work in one recall: requests, messages, tokens and failure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Token counts that a chat endpoint reported.

    Attributes:
        prompt: number of tokens in the prompts, including `cached`.
        completion: number of tokens in the answers, including reasoning.
        cached: number of prompt tokens that the endpoint read from its cache.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)


class ModelFailureKind(Enum):
    """Reasons why a recall answers without the chat model."""

    UNREACHABLE = "the endpoint cannot be reached"
    TIMEOUT = "the model did not answer within its timeout"
    DEADLINE = "the deadline of the recall was too short for the model"
    CREDENTIALS_REJECTED = "the endpoint rejected the API key"
    RATE_LIMITED = "the endpoint limits the rate of requests"
    ERROR_STATUS = "the endpoint returned another HTTP error"
    INVALID_RESPONSE = "the response of the endpoint is not a chat completion"
    INVALID_OUTPUT = "the output of the model does not follow the schema"
    NO_VALID_QUOTE = "no statement of the model has a valid quote"


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """The reason why a recall answered without the chat model. `text` contains no message content."""

    kind: ModelFailureKind
    text: str


@dataclass(frozen=True, slots=True)
class ModelReading:
    """Statistics of the chat model's work in one recall.

    Attributes:
        calls: the number of requests to the endpoint.
        messages: the number of distinct messages that the model was shown.
        usage: the token counts of all requests; None if the endpoint does not report them.
        failure: why the recall answered without the model; None if the model composed the answer or was not used.
    """

    calls: int = 0
    messages: int = 0
    usage: TokenUsage | None = None
    failure: ModelFailure | None = None
