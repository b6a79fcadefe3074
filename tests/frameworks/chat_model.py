"""A chat model with scripted replies and tool calls."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from recall.llm.chat_script import Answer, raw
from recall.llm.chat_script import running_script as chat_model

__all__ = ["chat_model", "says", "wants"]


def says(text: str) -> Answer:
    """Return a text reply."""
    return _answer({"role": "assistant", "content": text}, "stop")


def wants(tool: str, arguments: Mapping[str, object]) -> Answer:
    """Return a tool call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
    return _answer({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def _answer(message: object, finish_reason: str) -> Answer:
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return raw(json.dumps(reply))
