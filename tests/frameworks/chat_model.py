"""A chat model that says, or calls, what a test tells it to."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from recall.llm.chat_script import Answer, raw
from recall.llm.chat_script import running_script as chat_model

__all__ = ["chat_model", "says", "wants"]


def says(text: str) -> Answer:
    """Answer with a text."""
    return _answer({"role": "assistant", "content": text}, "stop")


def wants(tool: str, arguments: Mapping[str, object]) -> Answer:
    """Answer with a call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
    return _answer({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def _answer(message: object, finish_reason: str) -> Answer:
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return raw(json.dumps(reply))
