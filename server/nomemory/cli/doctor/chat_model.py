"""Check of the chat model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Final

from nomemory.cli.output import CheckResult
from nomemory.cli.terminal import pluralize
from nomemory.recall.llm.chat_model import ChatAnswer, ChatFailedError
from nomemory.recall.llm.json_answer import InvalidAnswerError, extract_object
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.model_reading import ModelFailureKind
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.wiring.recall_planner import create_recall_model, uses_chat_model

_NAME: Final = "Chat model"
_KEY: Final = "ok"
_PROMPT: Final = Prompt(
    "Answer with one JSON object and nothing else.",
    f'Give {{"{_KEY}": true}}.',
    "check",
    {
        "type": "object",
        "properties": {_KEY: {"type": "boolean"}},
        "required": [_KEY],
        "additionalProperties": False,
    },
)
_SEE_DOCS: Final = "See docs/models.md for the requirements of chat models."
_LARGER_MODEL: Final = f"Use a larger model, or an endpoint that enforces JSON schemas. {_SEE_DOCS}"
_ADVICE: Final = {
    ModelFailureKind.UNREACHABLE: "Check OPENAI_BASE_URL, and whether the endpoint is running.",
    ModelFailureKind.TIMEOUT: "Increase NOMEMORY_RECALL_MODEL_TIMEOUT_S, or use a faster model.",
    ModelFailureKind.CREDENTIALS_REJECTED: "Check OPENAI_API_KEY.",
    ModelFailureKind.RATE_LIMITED: "Try again later, or increase the rate limit or the quota of the API key.",
    ModelFailureKind.ERROR_STATUS: "Check NOMEMORY_RECALL_MODEL, OPENAI_BASE_URL (including /v1), and the log of the "
    "endpoint.",
    ModelFailureKind.INVALID_RESPONSE: "Check whether OPENAI_BASE_URL is the URL of an OpenAI-compatible API, "
    "including /v1.",
}


def check_chat_model(settings: Settings) -> Iterator[CheckResult]:
    """Send a small request to the chat model, if recalls use one."""
    if not uses_chat_model(settings):
        return
    try:
        yield asyncio.run(_check_answer(settings))
    except ChatFailedError as error:
        advice = _ADVICE.get(error.failure.kind, _SEE_DOCS)
        yield CheckResult(_NAME, "fail", f"{settings.recall.model}: {error}", advice)
    except StartupError as error:
        yield CheckResult(_NAME, "fail", str(error), _SEE_DOCS)


async def _check_answer(settings: Settings) -> CheckResult:
    """Check the answer of the chat model to a small request.

    Raises:
        ChatFailedError: the model returned no answer.
        StartupError: the settings of the model are incomplete.
    """
    async with AsyncExitStack() as stack:
        model = create_recall_model(settings, stack)
        started = time.perf_counter()
        answer = await model.ask(_PROMPT)
        duration_s = time.perf_counter() - started
    try:
        extract_object(answer.text, {_KEY})
    except InvalidAnswerError:
        finding = f"{settings.recall.model}: the answer is not the requested JSON object"
        return CheckResult(_NAME, "warn", finding, _LARGER_MODEL)
    return CheckResult(
        _NAME, "ok", f"{settings.recall.model}: answered in {duration_s:.1f} s{_describe_tokens(answer)}"
    )


def _describe_tokens(answer: ChatAnswer) -> str:
    if answer.usage is None:
        return "; the endpoint reports no token usage"
    prompt, completion = answer.usage.prompt, answer.usage.completion
    return f", {pluralize(prompt, 'prompt token')}, {pluralize(completion, 'completion token')}"
