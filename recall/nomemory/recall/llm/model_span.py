"""Trace chat model requests by the OpenTelemetry conventions for generative AI."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from typing import Final

from opentelemetry.trace import Span, SpanKind

from nomemory.recall.llm.prompt import Prompt
from nomemory.spans.span import child_span, is_content_shown, set_content_attribute

_COUNTED: Final = {
    "gen_ai.usage.input_tokens": "prompt_tokens",
    "gen_ai.usage.output_tokens": "completion_tokens",
}


async def ask_in_span(request: Awaitable[object], model: str, max_tokens: int, prompt: Prompt) -> object:
    """Send a request in a span, and record attributes of the unvalidated response."""
    with child_span(f"chat {model}", SpanKind.CLIENT) as recorded:
        if recorded is None:
            return await request
        recorded.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": model,
                "gen_ai.request.max_tokens": max_tokens,
                "gen_ai.output.type": "json",
            }
        )
        if is_content_shown():
            set_content_attribute(recorded, "gen_ai.input.messages", _messages(list(prompt.turns())))
        reply = await request
        _record_response(recorded, reply)
        return reply


def _record_response(recorded: Span, reply: object) -> None:
    answered_by, usage = getattr(reply, "model", None), getattr(reply, "usage", None)
    if isinstance(answered_by, str):
        recorded.set_attribute("gen_ai.response.model", answered_by)
    for name, field in _COUNTED.items():
        if isinstance(count := getattr(usage, field, None), int):
            recorded.set_attribute(name, count)
    choices = getattr(reply, "choices", None)
    if is_content_shown() and isinstance(choices, list) and choices:
        content = getattr(getattr(choices[0], "message", None), "content", None)
        set_content_attribute(recorded, "gen_ai.output.messages", _messages([("assistant", str(content or ""))]))


def _messages(turns: Sequence[tuple[str, str]]) -> str:
    messages = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in turns]
    return json.dumps(messages, ensure_ascii=False)
