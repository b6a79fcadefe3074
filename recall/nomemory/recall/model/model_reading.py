"""The work of the chat model in one recall: requests, messages, tokens and failure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Numbers of tokens, as reported by the endpoint.

    Attributes:
        prompt: tokens of the prompts, including `cached`.
        completion: tokens of the answers, including reasoning.
        cached: tokens of the prompts that the endpoint read from its cache.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)


class ModelFailureKind(Enum):
    """The kinds of failures after which the rules answer instead of the chat model."""

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
    """The reason why the rules answer instead of the chat model. `text` contains no content."""

    kind: ModelFailureKind
    text: str


@dataclass(frozen=True, slots=True)
class ModelReading:
    """The work of the chat model in one recall.

    Attributes:
        calls: the number of requests.
        messages: the number of distinct messages that the model was shown.
        usage: the sum of the tokens of all requests; None if the endpoint does not report them.
        failure: the reason why the rules composed the view; None if the model composed it.
    """

    calls: int = 0
    messages: int = 0
    usage: TokenUsage | None = None
    failure: ModelFailure | None = None
