"""Trace chat model requests according to the OpenTelemetry conventions for generative AI."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence

from opentelemetry.trace import Span, SpanKind

from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.llm.token_usage import read_token_usage
from nomemory.recall.model.model_reading import TokenUsage
from nomemory.spans.span import is_content_shown, set_content_attribute, start_child_span


async def trace_chat_request(request: Awaitable[object], model: str, max_tokens: int, prompt: Prompt) -> object:
    """Send a chat request, and record its response in a span. The response is not validated."""
    with start_child_span(f"chat {model}", SpanKind.CLIENT) as chat_span:
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
            set_content_attribute(chat_span, "gen_ai.input.messages", _format_messages(list(prompt.iterate_turns())))
        reply = await request
        _record_response(chat_span, reply)
        return reply


def _record_response(chat_span: Span, reply: object) -> None:
    response_model = getattr(reply, "model", None)
    if isinstance(response_model, str):
        chat_span.set_attribute("gen_ai.response.model", response_model)
    chat_span.set_attributes(build_usage_attributes(read_token_usage(reply)))
    choices = getattr(reply, "choices", None)
    if is_content_shown() and isinstance(choices, list) and choices:
        content = getattr(getattr(choices[0], "message", None), "content", None)
        set_content_attribute(
            chat_span, "gen_ai.output.messages", _format_messages([("assistant", str(content or ""))])
        )


def build_usage_attributes(usage: TokenUsage | None) -> dict[str, int]:
    """Return span attributes with the token counts; empty if the endpoint reports none."""
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.output_tokens": usage.completion,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
    }


def _format_messages(turns: Sequence[tuple[str, str]]) -> str:
    messages = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in turns]
    return json.dumps(messages, ensure_ascii=False)
