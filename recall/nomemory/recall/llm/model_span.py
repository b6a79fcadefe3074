"""Trace chat model requests by the OpenTelemetry conventions for generative AI."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from typing import Final

from opentelemetry.trace import Span, SpanKind

from nomemory.recall.llm.prompt import Prompt
from nomemory.spans.span import child_span, is_content_shown, set_content_attribute

_USAGE_FIELDS: Final = {
    "gen_ai.usage.input_tokens": "prompt_tokens",
    "gen_ai.usage.output_tokens": "completion_tokens",
}


async def ask_in_span(request: Awaitable[object], model: str, max_tokens: int, prompt: Prompt) -> object:
    """Send a request in a span, and record attributes of the unvalidated response."""
    with child_span(f"chat {model}", SpanKind.CLIENT) as chat_span:
        if chat_span is None:
            return await request
        chat_span.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": model,
                "gen_ai.request.max_tokens": max_tokens,
                "gen_ai.output.type": "json",
            }
        )
        if is_content_shown():
            set_content_attribute(chat_span, "gen_ai.input.messages", _format_messages(list(prompt.turns())))
        reply = await request
        _record_response(chat_span, reply)
        return reply


def _record_response(chat_span: Span, reply: object) -> None:
    response_model, usage = getattr(reply, "model", None), getattr(reply, "usage", None)
    if isinstance(response_model, str):
        chat_span.set_attribute("gen_ai.response.model", response_model)
    for name, field in _USAGE_FIELDS.items():
        if isinstance(count := getattr(usage, field, None), int):
            chat_span.set_attribute(name, count)
    choices = getattr(reply, "choices", None)
    if is_content_shown() and isinstance(choices, list) and choices:
        content = getattr(getattr(choices[0], "message", None), "content", None)
        set_content_attribute(
            chat_span, "gen_ai.output.messages", _format_messages([("assistant", str(content or ""))])
        )


def _format_messages(turns: Sequence[tuple[str, str]]) -> str:
    messages = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in turns]
    return json.dumps(messages, ensure_ascii=False)
