"""An endpoint of embedding models that tests can pause."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

DIMENSION = 8
PAUSE_S = 0.25
"""A call that takes longer than this ends a batch of the indexer, so that what came before is stored."""


class Models:
    """Serves any number of models with incompatible vectors of the same dimension.

    Attributes: url: URL of the endpoint. embedded: the texts that each model embedded. keys: the API keys that each
    model received. useless: models that return zero vectors for texts that begin with `text`.
    """

    def __init__(self) -> None:
        self.embedded: dict[str, list[str]] = {}
        self.keys: dict[str, set[str]] = {}
        self.useless: set[str] = set()
        self._most: dict[str, int] = {}
        self._released = threading.Event()
        models = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                models.keys.setdefault(body["model"], set()).add(self.headers.get("authorization", ""))
                content = json.dumps(models.answer(body["model"], body["input"])).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                with suppress(BrokenPipeError):  # the server may have been killed
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Disable logging."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def hold(self, model: str, after: int) -> None:
        """Make a model wait after it has embedded a number of message texts."""
        self._released.clear()
        self._most[model] = after

    def release(self) -> None:
        """Let the model continue."""
        self._most.clear()
        self._released.set()

    def answer(self, model: str, texts: list[str]) -> dict[str, object]:
        """Return the vectors of a request."""
        is_of_messages = any(text.startswith("text") for text in texts)
        if is_of_messages and len(self.embedded.get(model, ())) >= self._most.get(model, 1 << 30):
            self._released.wait()
        elif model in self._most:
            time.sleep(PAUSE_S)
        self.embedded.setdefault(model, []).extend(texts)
        rows = [
            {"object": "embedding", "index": index, "embedding": self._numbers(model, text)}
            for index, text in enumerate(texts)
        ]
        return {"object": "list", "model": model, "data": rows, "usage": {}}

    def _numbers(self, model: str, text: str) -> list[float]:
        is_useless = model in self.useless and text.startswith("text")
        return [0.0] * DIMENSION if is_useless else numbers(model, text)


def numbers(model: str, text: str) -> list[float]:
    """Return the vector of a text, which depends on the model."""
    seed = int.from_bytes(blake2b(f"{model} {text}".encode(), digest_size=8).digest(), "big")
    vector: list[float] = np.random.default_rng(seed).standard_normal(DIMENSION).astype("<f4").tolist()
    return vector


@contextmanager
def models() -> Iterator[Models]:
    """Serve models until the context exits."""
    served = Models()
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        served.release()
        served.server.shutdown()
        served.server.server_close()
        thread.join()
