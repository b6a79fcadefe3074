"""An HTTP server for /v1/chat/completions with scripted replies."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "secret words of the endpoint"  # noqa: S105 - what must not show up in an error

Body = dict[str, Any]
Reply = tuple[int, dict[str, str], bytes]
Answer = Callable[[Body], Reply]


def says(text: str | None, usage: object = None) -> Answer:
    """Return a response with a model text and its token usage."""
    message = {"role": "assistant", "content": text}
    reply = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    return raw(json.dumps(reply if usage is None else {**reply, "usage": usage}))


def answers(value: object, usage: object = None) -> Answer:
    """Return a response with JSON as the model text."""
    return says(json.dumps(value, ensure_ascii=False), usage)


def usage_of(prompt: int, completion: int, cached: int | None = None) -> dict[str, object]:
    """Return the `usage` of a chat completion; without `cached`, cached tokens are not reported."""
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **details}


def raw(content: str) -> Answer:
    """Return a response with status 200 and a raw body."""
    return lambda _: (200, {"content-type": "application/json"}, content.encode())


def status(code: int, param: str | None = None, **headers: str) -> Answer:
    """Return an error response, whose message must not be forwarded."""
    content = json.dumps({"error": {"message": SECRET, "param": param}}).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: (code, {"content-type": "application/json", **names}, content)


def format_of(body: Body) -> str:
    """Return the name of the requested response format."""
    return str(body.get("response_format", {}).get("type", "plain"))


class ChatScript:
    """Returns its replies in order, repeating the last one, and records the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.bodies: list[Body] = []
        self.keys: list[str] = []
        self.closing = threading.Event()
        self.url = ""

    def silence(self, _: Body) -> Reply:
        """Do not answer until the test ends."""
        self.closing.wait(30)
        return 500, {}, b""

    def reply(self, body: Body, key: str) -> Reply:
        """Record a request and answer it."""
        self.bodies.append(body)
        self.keys.append(key)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(body)

    @property
    def formats(self) -> list[str]:
        """The requested response formats."""
        return [format_of(body) for body in self.bodies]

    @property
    def prompts(self) -> list[str]:
        """The messages of each request."""
        return ["\n\n".join(message["content"] for message in body["messages"]) for body in self.bodies]


@contextmanager
def running_script() -> Iterator[ChatScript]:
    """Serve a script until the context exits."""
    script = ChatScript()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            code, headers, content = script.reply(body, self.headers.get("authorization", ""))
            self.send_response(code if self.path == "/v1/chat/completions" else 404)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            with suppress(BrokenPipeError):  # the client has disconnected
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Disable logging."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        script.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
