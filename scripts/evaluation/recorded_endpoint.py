"""A chat endpoint that answers from files: every prompt under the hash of its text, its answer beside it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from proofs.scripted_endpoint import Body, json_server

PROMPT: Final = ".prompt.md"
ANSWER: Final = ".answer.json"
_DIGITS: Final = 16

Reply = tuple[int, dict[str, Any]]


class RecordedEndpoint:
    """Answers `/v1/chat/completions` with the files of a folder, for one question at a time.

    A prompt is written to `HASH.prompt.md`. If there is a `HASH.answer.json`, its text is what the model says. Else the
    request is refused, and so is every further one of the same question: what comes after a missing answer depends
    on it.

    Args:
        folder: where prompts and answers are; it exists.

    Attributes:
        prompts: what was said to the model for the question in hand, without the schema, a text for each request.
        is_waiting: whether one of them has no answer yet.
        waiting: the hashes of all prompts so far that have none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.prompts: list[str] = []
        self.is_waiting = False
        self.waiting: set[str] = set()

    def begin(self) -> None:
        """Begin with the next question."""
        self.prompts = []
        self.is_waiting = False

    def answer(self, body: Body) -> Reply:
        """Answer a request: the status and the body. A refusal is one after which nobody asks again."""
        said = None if self.is_waiting else self._said(body)
        if said is None:
            self.is_waiting = True
            return 401, {"error": {"message": "no answer was recorded"}}
        message = {"role": "assistant", "content": said}
        return 200, {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}

    def _said(self, body: Body) -> str | None:
        """Write a prompt down; returns its answer, None if there is none."""
        prompt = prompt_text(body)
        name = prompt_hash(prompt)
        self.prompts.append("\n\n".join(item["content"] for item in body["messages"]))
        (self._folder / f"{name}{PROMPT}").write_text(prompt, encoding="utf-8")
        answer = self._folder / f"{name}{ANSWER}"
        if answer.is_file():
            return answer.read_text(encoding="utf-8")
        self.waiting.add(name)
        return None


def prompt_text(body: Body) -> str:
    """Write a request of a chat for people: what the system says, what the user says, the schema of the answer."""
    parts = [f"# {item['role'].capitalize()}\n\n{item['content']}" for item in body["messages"]]
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return "\n\n".join([*parts, f"# Schema\n\n{json.dumps(schema, ensure_ascii=False)}\n"])


def prompt_hash(prompt: str) -> str:
    """Return what a prompt's files are called."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:_DIGITS]


@contextmanager
def serving(endpoint: RecordedEndpoint) -> Iterator[str]:
    """Serve an endpoint on a free port of this machine for the time of a `with`; returns the base URL."""

    def answer(path: str, body: Body) -> tuple[int, bytes]:
        status, reply = endpoint.answer(body) if path.endswith("/chat/completions") else (404, {})
        return status, json.dumps(reply).encode()

    server = json_server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
