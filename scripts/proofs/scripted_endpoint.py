"""An OpenAI-compatible endpoint that embeds any text, and does it well, slowly or not at all, as it is told."""

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


class Mood(Enum):
    """How it answers."""

    WELL = "answers"
    SLOW = "answers slowly"
    FAILING = "answers 500"
    LIMITED = "answers 429"
    SILENT = "does not answer"
    BROKEN = "answers with rubbish"


class ScriptedEndpoint:
    """Answers `/v1/embeddings`, and `/v1/chat/completions` if it is told what to say.

    Attributes:
        mood: how it answers from now on.
        chat: what it says to a chat.
    """

    def __init__(self, dimension: int) -> None:
        self.mood = Mood.WELL
        self.chat: Chat = lambda _: "{}"
        self._dimension = dimension
        self._changed = threading.Event()
        self._server = json_server(self.answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    @contextmanager
    def serving(self) -> Iterator[ScriptedEndpoint]:
        """Serve until the context is left."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._changed.set()
            self._server.shutdown()
            self._server.server_close()

    def become(self, mood: Mood) -> None:
        """Answer like this from now on; who waits for an answer gets one."""
        self.mood = mood
        self._changed.set()
        self._changed = threading.Event()

    def answer(self, path: str, body: Body) -> tuple[int, bytes]:
        """Answer a request: the status and the body."""
        mood = self.mood
        if mood in (Mood.SLOW, Mood.SILENT):
            self._changed.wait(_SLOW_S if mood is Mood.SLOW else _SILENT_S)
        if mood in (Mood.FAILING, Mood.LIMITED, Mood.SILENT):
            return 429 if mood is Mood.LIMITED else 500, b'{"error": {"message": "scripted"}}'
        if mood is Mood.BROKEN:
            return 200, b'{"data": [{"index": 0, "embedding": "AAAA"}'
        return 200, json.dumps(self._reply(path, body)).encode()

    def _reply(self, path: str, body: Body) -> Body:
        if path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": self.chat(body)}
            return {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
        rows = [
            {"object": "embedding", "index": n, "embedding": self._vector(text)} for n, text in enumerate(body["input"])
        ]
        return {"object": "list", "model": body.get("model", ""), "data": rows, "usage": {}}

    def _vector(self, text: str) -> str:
        seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
        return base64.b64encode(
            np.random.default_rng(seed).standard_normal(self._dimension).astype("<f4").tobytes()
        ).decode()


def json_server(answer: Callable[[str, Body], tuple[int, bytes]]) -> ThreadingHTTPServer:
    """Make a server on a free port of this machine that answers JSON posts; it is to be served and closed.

    Args:
        answer: takes the path and the body, returns the status and the body; called from several threads.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, content = answer(self.path, body)
            with suppress(OSError):  # whoever asked has gone
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Say nothing: callers that are killed break their connections."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server
