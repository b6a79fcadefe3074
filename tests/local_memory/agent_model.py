"""A streaming chat model for agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from recall.llm.chat_script import Body, ChatScript, Reply, running_script

ANSWER = "Understood, I keep to that."


@contextmanager
def model_for_agents() -> Iterator[ChatScript]:
    """Serve a model with a fixed answer."""
    with running_script() as script:
        script.answers = [_answer]
        yield script


def _answer(body: Body) -> Reply:
    message = {"role": "assistant", "content": ANSWER}
    reply = {
        "id": "1",
        "created": 1,
        "model": "test",
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return 200, {"content-type": "application/json"}, json.dumps({**reply, "choices": [choice]}).encode()
    chunks = [
        {**reply, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in ((message, None), ({}, "stop"))
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return 200, {"content-type": "text/event-stream"}, "".join([*lines, "data: [DONE]\n\n"]).encode()
