"""Chat completions endpoint that writes prompts to files and reads its replies from files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from proofs.scripted_endpoint import Body, create_json_server

PROMPT: Final = ".prompt.md"
ANSWER: Final = ".answer.json"
_DIGITS: Final = 16

Reply = tuple[int, dict[str, Any]]


class RecordedEndpoint:
    """Chat completions endpoint that answers from the files of a folder, for one question at a time.

    Each prompt is written to `HASH.prompt.md`. If `HASH.answer.json` exists, its text is the reply of the model.
    Otherwise the request and all further requests of the same question are rejected, because later prompts depend on
    the missing answer.

    Args:
        folder: existing folder of prompts and answers.

    Attributes:
        prompts: the prompts of the current question without the schema, one text per request.
        lacks_answer: whether a prompt of the current question has no answer.
        unanswered_prompts: hashes of all prompts without an answer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.prompts: list[str] = []
        self.lacks_answer = False
        self.unanswered_prompts: set[str] = set()

    def start_question(self) -> None:
        """Clear the recorded prompts before the next question."""
        self.prompts = []
        self.lacks_answer = False

    def answer(self, body: Body) -> Reply:
        """Return the HTTP status and body of a reply; a rejection has a status that clients do not retry."""
        content = None if self.lacks_answer else self._read_recorded_answer(body)
        if content is None:
            self.lacks_answer = True
            return 401, {"error": {"message": "no recorded answer for this prompt"}}
        message = {"role": "assistant", "content": content}
        return 200, {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}

    def _read_recorded_answer(self, body: Body) -> str | None:
        """Write the prompt of a request to its file; return the recorded answer, or None."""
        prompt = format_prompt(body)
        name = hash_prompt(prompt)
        self.prompts.append("\n\n".join(item["content"] for item in body["messages"]))
        (self._folder / f"{name}{PROMPT}").write_text(prompt, encoding="utf-8")
        answer = self._folder / f"{name}{ANSWER}"
        if answer.is_file():
            return answer.read_text(encoding="utf-8")
        self.unanswered_prompts.add(name)
        return None


def format_prompt(body: Body) -> str:
    """Format a chat request as Markdown: the messages, then the schema of the answer."""
    sections = [f"# {item['role'].capitalize()}\n\n{item['content']}" for item in body["messages"]]
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return "\n\n".join([*sections, f"# Schema\n\n{json.dumps(schema, ensure_ascii=False)}\n"])


def hash_prompt(prompt: str) -> str:
    """Return the hash of a prompt, 16 hexadecimal digits, which is the stem of its file names."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:_DIGITS]


@contextmanager
def running_endpoint(endpoint: RecordedEndpoint) -> Iterator[str]:
    """Serve an endpoint on a free local port; yield the base URL."""

    def answer(path: str, body: Body) -> tuple[int, bytes]:
        status, reply = endpoint.answer(body) if path.endswith("/chat/completions") else (404, {})
        return status, json.dumps(reply).encode()

    server = create_json_server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
