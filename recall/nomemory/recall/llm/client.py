"""A client of one OpenAI-compatible chat endpoint: OpenAI, vLLM, Ollama, llama.cpp and others."""

from __future__ import annotations

import asyncio

import openai
from openai import AsyncOpenAI, omit
from openai.types.chat import ChatCompletionMessageParam

from nomemory.recall.llm.chat_model import ChatFailedError
from nomemory.recall.llm.endpoint_dialect import Dialect
from nomemory.recall.llm.model_span import ask_in_span
from nomemory.recall.llm.prompt import Prompt

_NO_KEY = "none"
_RETRIES = 1
_MISUNDERSTOOD = frozenset({400, 404, 415, 422})
"""With these an endpoint may answer a simpler request."""


def connect(base_url: str | None, api_key: str | None, timeout_s: float) -> AsyncOpenAI:
    """Make a client; nothing is sent yet. What may pass is asked once more, after as long as the endpoint wants."""
    return AsyncOpenAI(base_url=base_url, api_key=api_key or _NO_KEY, timeout=timeout_s, max_retries=_RETRIES)


class ChatEndpoint:
    """Implements `ChatModel`: asks a model for one JSON object. It may serve any number of recalls at a time.

    It begins with the strictest way to ask (`json_schema`), asks in simpler ways where the endpoint refuses, and
    remembers the first that was understood.

    Args:
        client: the connection.
        model: the endpoint's name of the model.
        timeout_s: seconds that one question may take, retries included.
        max_tokens: most tokens of an answer.
    """

    def __init__(self, client: AsyncOpenAI, model: str, *, timeout_s: float = 20.0, max_tokens: int = 2_000) -> None:
        self._client = client
        self._model = model
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self.dialect = Dialect()
        """How the endpoint is asked: the strictest way until it has refused one."""

    async def ask(self, prompt: Prompt, within_s: float | None = None) -> str:
        """Return the text of the model's answer, within the endpoint's timeout or fewer seconds.

        Raises:
            ChatFailedError: there is none; its text holds no content.
        """
        patience_s = self._timeout_s if within_s is None else min(within_s, self._timeout_s)
        if patience_s <= 0:
            raise ChatFailedError("the chat endpoint has no time left to answer")
        try:
            async with asyncio.timeout(patience_s):
                return _text_of(await self._understood(prompt))
        except (TimeoutError, openai.OpenAIError, ValueError) as error:  # what is not JSON passes through the package
            raise ChatFailedError(_reason(error)) from None

    async def _understood(self, prompt: Prompt) -> object:
        """Ask in simpler and simpler ways until the endpoint understands."""
        dialect = self.dialect
        while True:
            try:
                reply = await ask_in_span(self._request(prompt, dialect), self._model, self._max_tokens, prompt)
            except openai.APIStatusError as refusal:
                simpler = dialect.simpler(refusal.param) if refusal.status_code in _MISUNDERSTOOD else None
                if simpler is None:
                    raise
                dialect = simpler
            else:
                self.dialect = dialect
                return reply

    async def _request(self, prompt: Prompt, dialect: Dialect) -> object:
        return await self._client.chat.completions.create(
            model=self._model,
            messages=[_message(role, text) for role, text in prompt.turns()],
            response_format=dialect.response_format(prompt.answer_name, prompt.answer_schema),
            temperature=0.0 if dialect.temperature else omit,
            max_tokens=omit if dialect.completion_tokens else self._max_tokens,
            max_completion_tokens=self._max_tokens if dialect.completion_tokens else omit,
        )


def _message(role: str, text: str) -> ChatCompletionMessageParam:
    if role == "system":
        return {"role": "system", "content": text}
    return {"role": "user", "content": text} if role == "user" else {"role": "assistant", "content": text}


def _text_of(reply: object) -> str:
    """Take the answer out of a reply, which the package has not checked. A refusal to speak is an empty answer."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise ValueError("no choices")
    content = getattr(getattr(choices[0], "message", None), "content", None)
    return content if isinstance(content, str) else ""


def _reason(error: Exception) -> str:
    """Say what went wrong in our own words: an endpoint's may quote the prompt."""
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return "the chat endpoint does not answer in time"
    if isinstance(error, openai.APIConnectionError):
        return "the chat endpoint cannot be reached"
    if isinstance(error, openai.APIStatusError):
        return f"the chat endpoint refuses or fails (status {error.status_code})"
    return "the chat endpoint gives no usable reply"
