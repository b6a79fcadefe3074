"""Fake OpenAI-compatible endpoint with configurable behavior: normal, slow or failing."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

Body = dict[str, Any]
Chat = Callable[[Body], str]

_SLOW_S = 0.7
_SILENT_S = 20.0


class Behavior(Enum):
    """Response behavior of the endpoint."""

    NORMAL = "answers"
    SLOW = "answers slowly"
    FAILING = "answers 500"
    LIMITED = "answers 429"
    SILENT = "does not answer"
    BROKEN = "answers with invalid JSON"


class ScriptedEndpoint:
    """Fake of `/v1/embeddings` and `/v1/chat/completions`.

    Attributes:
        chat: function that returns the content of a chat completion for a request body.
    """

    def __init__(self, dimension: int) -> None:
        self.behavior = Behavior.NORMAL
        self.chat: Chat = lambda _: "{}"
        self._dimension = dimension
        self._changed = threading.Event()
        self._server = create_json_server(self.answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    @contextmanager
    def serve(self) -> Iterator[ScriptedEndpoint]:
        """Serve until the context exits."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._changed.set()
            self._server.shutdown()
            self._server.server_close()

    def set_behavior(self, behavior: Behavior) -> None:
        """Change the behavior; pending slow requests are answered immediately."""
        self.behavior = behavior
        self._changed.set()
        self._changed = threading.Event()

    def answer(self, path: str, body: Body) -> tuple[int, bytes]:
        """Return the HTTP status and body of a response."""
        behavior = self.behavior
        if behavior in (Behavior.SLOW, Behavior.SILENT):
            self._changed.wait(_SLOW_S if behavior is Behavior.SLOW else _SILENT_S)
        if behavior in (Behavior.FAILING, Behavior.LIMITED, Behavior.SILENT):
            return 429 if behavior is Behavior.LIMITED else 500, b'{"error": {"message": "scripted"}}'
        if behavior is Behavior.BROKEN:
            return 200, b'{"data": [{"index": 0, "embedding": "AAAA"}'
        return 200, json.dumps(self._build_reply(path, body)).encode()

    def _build_reply(self, path: str, body: Body) -> Body:
        if path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": self.chat(body)}
            return {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
        rows = [
            {"object": "embedding", "index": n, "embedding": self._encode_vector(text)}
            for n, text in enumerate(body["input"])
        ]
        return {"object": "list", "model": body.get("model", ""), "data": rows, "usage": {}}

    def _encode_vector(self, text: str) -> str:
        seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
        return base64.b64encode(
            np.random.default_rng(seed).standard_normal(self._dimension).astype("<f4").tobytes()
        ).decode()


def create_json_server(answer: Callable[[str, Body], tuple[int, bytes]]) -> ThreadingHTTPServer:
    """Return an HTTP server on a free local port for JSON POST requests; the caller serves and closes it.

    Args:
        answer: thread-safe function that maps the path and body of a request to the status and body of the response.
    """

    class JsonRequestHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, content = answer(self.path, body)
            with suppress(OSError):  # the client has disconnected
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Suppress the access log."""

    class JsonServer(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Ignore errors of clients that were killed."""

    server = JsonServer(("127.0.0.1", 0), JsonRequestHandler)
    server.daemon_threads = True
    return server
