"""Client for OpenAI-compatible chat endpoints, such as OpenAI, vLLM, Ollama and llama.cpp."""

from __future__ import annotations

import asyncio

import openai
from openai import AsyncOpenAI, omit
from openai.types.chat import ChatCompletionMessageParam

from nomemory.recall.llm.chat_model import ChatAnswer, ChatFailedError
from nomemory.recall.llm.endpoint_dialect import EndpointDialect
from nomemory.recall.llm.model_span import trace_chat_request
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.llm.token_usage import read_token_usage
from nomemory.recall.model.model_reading import ModelFailureKind

_TIMED_OUT = "the chat model did not answer in time"
_NO_KEY = "none"
_RETRIES = 1
_RATE_LIMITED_STATUS = 429
_REJECTED_KEY_STATUSES = frozenset({401, 403})
_SIMPLER_REQUEST_STATUSES = frozenset({400, 404, 415, 422})
"""Status codes after which a simpler request may succeed."""


def create_client(base_url: str | None, api_key: str | None, timeout_s: float) -> AsyncOpenAI:
    """Create a client that retries a transient error once, after the delay that the endpoint requests."""
    return AsyncOpenAI(base_url=base_url, api_key=api_key or _NO_KEY, timeout=timeout_s, max_retries=_RETRIES)


class ChatEndpoint:
    """A `ChatModel` that requests JSON answers from an endpoint. One instance serves concurrent recalls.

    The first request asks for the strictest answer format (`json_schema`). If the endpoint rejects the request, a
    simpler format is tried. Later requests use the first format that the endpoint accepted.

    Args:
        client: the client of the OpenAI library.
        model: the model name at the endpoint.
        timeout_s: time limit for an answer in seconds, including retries.
        max_tokens: maximum number of tokens in an answer.
    """

    def __init__(self, client: AsyncOpenAI, model: str, *, timeout_s: float = 20.0, max_tokens: int = 2_000) -> None:
        self._client = client
        self._model = model
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self.dialect = EndpointDialect()
        """The format of the next request: the strictest format that the endpoint has not rejected."""

    async def ask(self, prompt: Prompt, within_s: float | None = None) -> ChatAnswer:
        """Return the model's answer, within the endpoint's timeout or `within_s` seconds, whichever is shorter.

        Raises:
            ChatFailedError: the endpoint returned no answer. The error message contains no text from the prompt.
        """
        timeout_s = self._timeout_s if within_s is None else min(within_s, self._timeout_s)
        if timeout_s <= 0:
            raise ChatFailedError(
                ModelFailureKind.DEADLINE,
                "the deadline leaves no time for a call to the chat model: set a later deadline",
            )
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._send_prompt(prompt)
                return ChatAnswer(_extract_answer_text(reply), read_token_usage(reply))
        except TimeoutError:
            is_shortened = timeout_s < self._timeout_s
            kind = ModelFailureKind.DEADLINE if is_shortened else ModelFailureKind.TIMEOUT
            raise ChatFailedError(kind, _TIMED_OUT) from None
        except (openai.OpenAIError, ValueError) as error:
            # The OpenAI library does not wrap JSON decoding errors.
            raise _convert_error(error) from None

    async def _send_prompt(self, prompt: Prompt) -> object:
        """Send the prompt, with a simpler request format after each rejection."""
        dialect = self.dialect
        while True:
            try:
                reply = await trace_chat_request(
                    self._request_completion(prompt, dialect), self._model, self._max_tokens, prompt
                )
            except openai.APIStatusError as error:
                simpler = dialect.simplify(error.param) if error.status_code in _SIMPLER_REQUEST_STATUSES else None
                if simpler is None:
                    raise
                dialect = simpler
            else:
                self.dialect = dialect
                return reply

    async def _request_completion(self, prompt: Prompt, dialect: EndpointDialect) -> object:
        return await self._client.chat.completions.create(
            model=self._model,
            messages=[_to_chat_message(role, text) for role, text in prompt.iterate_turns()],
            response_format=dialect.build_response_format(prompt.answer_name, prompt.answer_schema),
            temperature=0.0 if dialect.sets_temperature else omit,
            max_tokens=omit if dialect.uses_max_completion_tokens else self._max_tokens,
            max_completion_tokens=self._max_tokens if dialect.uses_max_completion_tokens else omit,
        )


def _to_chat_message(role: str, text: str) -> ChatCompletionMessageParam:
    if role == "system":
        return {"role": "system", "content": text}
    return {"role": "user", "content": text} if role == "user" else {"role": "assistant", "content": text}


def _extract_answer_text(reply: object) -> str:
    """Return the answer text of an unvalidated response; empty if the model refused to answer."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise ValueError("no choices")
    content = getattr(getattr(choices[0], "message", None), "content", None)
    return content if isinstance(content, str) else ""


def _convert_error(error: Exception) -> ChatFailedError:
    """Convert an error of the OpenAI library. Drop its error message, because the message may quote the prompt."""
    if isinstance(error, openai.APITimeoutError):
        return ChatFailedError(ModelFailureKind.TIMEOUT, _TIMED_OUT)
    if isinstance(error, openai.APIConnectionError):
        return ChatFailedError(ModelFailureKind.UNREACHABLE, "the chat model cannot be reached")
    if isinstance(error, openai.APIStatusError):
        return _convert_status_code(error.status_code)
    return ChatFailedError(ModelFailureKind.INVALID_RESPONSE, "the chat model returned an invalid response")


def _convert_status_code(code: int) -> ChatFailedError:
    if code in _REJECTED_KEY_STATUSES:
        text = f"the chat model rejected the API key (status {code})"
        return ChatFailedError(ModelFailureKind.CREDENTIALS_REJECTED, text)
    kind = ModelFailureKind.RATE_LIMITED if code == _RATE_LIMITED_STATUS else ModelFailureKind.ERROR_STATUS
    return ChatFailedError(kind, f"the chat model returned status {code}")
