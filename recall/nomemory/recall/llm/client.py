"""One OpenAI-compatible chat endpoint: OpenAI, vLLM, Ollama, llama.cpp, and others.

How much of the chat completions API an endpoint understands.

A question to a chat model as a span, by the conventions of OpenTelemetry for generative AI.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import openai
from openai import AsyncOpenAI, Omit, omit
from openai.types.chat import ChatCompletionMessageParam
from openai.types.shared_params import ResponseFormatJSONObject, ResponseFormatJSONSchema
from opentelemetry.trace import Span, SpanKind

from nomemory.recall.llm.chat_model import ChatFailedError
from nomemory.recall.llm.prompt import Prompt
from nomemory.spans.span import show, shows_content, span


class AnswerFormat(Enum):
    """The ways to ask an endpoint for JSON, the strictest first."""

    SCHEMA = "json_schema"
    OBJECT = "json_object"
    PLAIN = "plain"


_LOOSER = {AnswerFormat.SCHEMA: AnswerFormat.OBJECT, AnswerFormat.OBJECT: AnswerFormat.PLAIN}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is sent besides the messages.

    Attributes:
        answer_format: how JSON is asked for.
        temperature: whether a temperature of 0 may be asked for; some reasoning models refuse any.
        completion_tokens: whether the bound on the answer is called `max_completion_tokens`, not `max_tokens`.
    """

    answer_format: AnswerFormat = AnswerFormat.SCHEMA
    temperature: bool = True
    completion_tokens: bool = False

    def simpler(self, refused: str | None) -> Dialect | None:
        """Return the dialect to try after a refusal, which may name a parameter; None if there is none left."""
        if refused == "temperature" and self.temperature:
            return replace(self, temperature=False)
        if refused == "max_tokens" and not self.completion_tokens:
            return replace(self, completion_tokens=True)
        looser = _LOOSER.get(self.answer_format)
        return replace(self, answer_format=looser) if looser else None

    def response_format(
        self, name: str, schema: Mapping[str, object]
    ) -> ResponseFormatJSONSchema | ResponseFormatJSONObject | Omit:
        """Ask for an object of a schema in this dialect."""
        if self.answer_format is AnswerFormat.SCHEMA:
            return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}
        if self.answer_format is AnswerFormat.OBJECT:
            return {"type": "json_object"}
        return omit


_COUNTED: Final = {
    "gen_ai.usage.input_tokens": "prompt_tokens",
    "gen_ai.usage.output_tokens": "completion_tokens",
}


async def ask_in_span(asked: Awaitable[object], model: str, max_tokens: int, prompt: Prompt) -> object:
    """Ask, and note what the reply says of itself. It has not been checked."""
    with span(f"chat {model}", SpanKind.CLIENT) as made:
        if made is None:
            return await asked
        made.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": model,
                "gen_ai.request.max_tokens": max_tokens,
                "gen_ai.output.type": "json",
            }
        )
        if shows_content():
            show(made, "gen_ai.input.messages", _messages(list(prompt.turns())))
        reply = await asked
        _note(made, reply)
        return reply


def _note(made: Span, reply: object) -> None:
    answered_by, usage = getattr(reply, "model", None), getattr(reply, "usage", None)
    if isinstance(answered_by, str):
        made.set_attribute("gen_ai.response.model", answered_by)
    for name, field in _COUNTED.items():
        if isinstance(count := getattr(usage, field, None), int):
            made.set_attribute(name, count)
    choices = getattr(reply, "choices", None)
    if shows_content() and isinstance(choices, list) and choices:
        content = getattr(getattr(choices[0], "message", None), "content", None)
        show(made, "gen_ai.output.messages", _messages([("assistant", str(content or ""))]))


def _messages(said: Sequence[tuple[str, str]]) -> str:
    messages = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said]
    return json.dumps(messages, ensure_ascii=False)


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
