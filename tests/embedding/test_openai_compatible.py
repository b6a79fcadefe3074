"""Tests for the OpenAI-compatible embedder with a local HTTP server."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nomemory.server.embedding.openai_compatible import OpenAICompatibleEmbedder, create_client
from nomemory.server.embedding.protocol import TextRejectedError, may_be_caused_by_text
from nomemory.server.faults import Fault, Reason

DIMENSION = 6
Reply = tuple[int, dict[str, str], bytes]
Answer = Callable[[dict[str, Any]], Reply]


def numbers(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype("<f4") * 7


def embedding(text: str, encoding: str) -> str | list[float]:
    vector = numbers(text)
    return base64.b64encode(vector.tobytes()).decode() if encoding == "base64" else vector.tolist()


def ok(body: dict[str, Any], encoding: str = "base64") -> Reply:
    """Return a response in the OpenAI format with shuffled vectors."""
    rows = [
        {"object": "embedding", "index": index, "embedding": embedding(text, encoding)}
        for index, text in enumerate(body["input"])
    ]
    return reply({"object": "list", "model": body["model"], "data": rows[::-1], "usage": {}})


def reply(answer: object) -> Reply:
    return 200, {"content-type": "application/json"}, json.dumps(answer).encode()


def error(status: int, **headers: str) -> Reply:
    return status, {"content-type": "application/json", **headers}, b'{"error": {"message": "secret words"}}'


class Endpoint:
    """A server with configurable responses that records its requests."""

    def __init__(self) -> None:
        self.answer: Answer = ok
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.bodies.append(body)
                endpoint.keys.append(self.headers.get("authorization", ""))
                status, headers, content = endpoint.answer(body) if self.path == "/v1/embeddings" else error(404)
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Disable logging."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @property
    def inputs(self) -> list[list[str]]:
        return [body["input"] for body in self.bodies]


@pytest.fixture(autouse=True)
def no_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep clients from reading the certificates of this machine, which would take most of the time of each test."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    thread = threading.Thread(target=endpoint.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()
    thread.join()


@pytest.fixture
async def embedder(endpoint: Endpoint) -> AsyncIterator[OpenAICompatibleEmbedder]:
    embedder = OpenAICompatibleEmbedder(create_client(endpoint.url, "key", 30), "bge", DIMENSION, batch_max=4)
    yield embedder
    await embedder.close()


def expected(text: str) -> Any:  # noqa: ANN401 - pytest's own kind of number
    return pytest.approx(numbers(text) / np.linalg.norm(numbers(text)), abs=1e-6)


@pytest.mark.parametrize("encoding", ["base64", "float"])
async def test_response_vectors_are_normalized_and_ordered_in_either_encoding(
    endpoint: Endpoint, embedder: OpenAICompatibleEmbedder, encoding: str
) -> None:
    endpoint.answer = lambda body: ok(body, encoding)
    texts = [f"text {number}" for number in range(10)]
    vectors = await embedder.embed_documents(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.frombuffer(vector, "<f4") == expected(text)
    assert endpoint.inputs == [texts[:4], texts[4:8], texts[8:]]
    assert {body["model"] for body in endpoint.bodies} == {"bge"}
    assert all("dimensions" not in body for body in endpoint.bodies)


async def test_supported_models_receive_the_dimension(endpoint: Endpoint) -> None:
    embedder = OpenAICompatibleEmbedder(create_client(endpoint.url, None, 5), "text-embedding-3-small", DIMENSION, 4)
    await embedder.embed_query("tea")
    assert endpoint.bodies[0]["dimensions"] == DIMENSION
    await embedder.close()


async def test_api_key_is_optional(endpoint: Endpoint, embedder: OpenAICompatibleEmbedder) -> None:
    await embedder.embed_query("tea")
    without = OpenAICompatibleEmbedder(create_client(endpoint.url, None, 5), "bge", DIMENSION, 4)
    await without.embed_query("tea")
    assert endpoint.keys == ["Bearer key", "Bearer none"]
    await without.close()


async def failure(embedder: OpenAICompatibleEmbedder) -> Fault:
    with pytest.raises(Fault) as failed:
        await embedder.embed_documents(["tea", "coffee"])
    fault = failed.value
    assert fault.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
    assert fault.retry_after_s is not None
    assert "secret" not in f"{fault.message} {fault!r} {fault.metadata}"
    return fault


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("999999999", 3600),
        (None, 5),
        ("soon", 5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Fri, 21 Oct 2225 07:28:00 GMT", 3600),
    ],
)
async def test_rate_limit_reports_the_delay_and_is_not_retried(
    endpoint: Endpoint, embedder: OpenAICompatibleEmbedder, header: str | None, seconds: int
) -> None:
    endpoint.answer = lambda _: error(429, **({} if header is None else {"retry-after": header}))
    fault = await failure(embedder)
    assert fault.retry_after_s == seconds
    assert not may_be_caused_by_text(fault)
    with pytest.raises(Fault):
        await embedder.embed_query("tea")
    assert len(endpoint.bodies) == 2


@pytest.mark.parametrize(
    ("answer", "cause", "about_texts"),
    [
        (lambda _: error(500), "server_error", True),
        (lambda _: error(503), "server_error", True),
        (lambda _: error(503, **{"retry-after": "1"}), "rate_limited", False),
        (lambda _: error(401), "key_refused", True),
        (lambda _: error(404), "not_found", True),
        (lambda _: error(400), "misconfigured", True),
        (lambda _: (200, {"content-type": "text/html"}, b"<html>secret</html>"), "malformed", True),
        (lambda _: (200, {"content-type": "application/json"}, b"{"), "malformed", True),
        (lambda _: (200, {"content-type": "application/json"}, b"\xff\x00secret"), "malformed", True),
        (lambda _: reply("secret"), "malformed", True),
        (lambda _: reply({"data": []}), "malformed", True),
        (lambda _: reply({"data": [{"embedding": None}, {"embedding": ["x"]}]}), "malformed", True),
        (lambda _: reply({"data": [{"embedding": "*secret*"}, {"embedding": "="}]}), "malformed", True),
        (lambda _: reply({"data": [{"embedding": [1.0] * 5}] * 2}), "dimension", True),
    ],
)
async def test_transient_endpoint_errors_become_faults_with_a_cause(
    endpoint: Endpoint,
    embedder: OpenAICompatibleEmbedder,
    answer: Answer,
    cause: str,
    about_texts: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    endpoint.answer = answer
    fault = await failure(embedder)
    assert fault.metadata["cause"] == cause
    assert may_be_caused_by_text(fault) == about_texts


async def test_wrong_dimension_is_reported(endpoint: Endpoint, embedder: OpenAICompatibleEmbedder) -> None:
    endpoint.answer = lambda body: reply({"data": [{"embedding": [1.0] * 9} for _ in body["input"]]})
    fault = await failure(embedder)
    assert fault.message == (
        "the embedding endpoint returned vectors with 9 dimensions, but NOMEMORY_EMBEDDING_DIMENSION is 6"
    )


async def test_unresponsive_endpoint_is_reported(endpoint: Endpoint) -> None:
    released = threading.Event()

    def stay_silent(body: dict[str, Any]) -> Reply:
        released.wait(10)
        return ok(body)

    endpoint.answer = stay_silent
    impatient = OpenAICompatibleEmbedder(create_client(endpoint.url, None, 0.2), "bge", DIMENSION, 4)
    assert (await failure(impatient)).metadata["cause"] == "timeout"
    released.set()
    nobody = OpenAICompatibleEmbedder(create_client("http://127.0.0.1:1/v1", None, 5), "bge", DIMENSION, 4)
    assert (await failure(nobody)).metadata["cause"] == "connection"
    await impatient.close()
    await nobody.close()


async def test_failed_query_is_retried_immediately(endpoint: Endpoint, embedder: OpenAICompatibleEmbedder) -> None:
    endpoint.answer = lambda body: error(500) if len(endpoint.bodies) == 1 else ok(body)
    assert np.frombuffer(await embedder.embed_query("tea"), "<f4") == expected("tea")
    assert len(endpoint.bodies) == 2


async def test_lone_surrogates_are_replaced_in_requests(endpoint: Endpoint, embedder: OpenAICompatibleEmbedder) -> None:
    await embedder.embed_documents(["half a pair \ud800"])
    assert endpoint.inputs == [["half a pair ?"]]


def refusing(status: int, *poison: str) -> Answer:
    return lambda body: error(status) if set(poison) & set(body["input"]) else ok(body)


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("index", range(4))
async def test_rejected_text_is_isolated(
    endpoint: Endpoint, embedder: OpenAICompatibleEmbedder, status: int, index: int
) -> None:
    texts = [f"text {number}" for number in range(8)]
    poison = 4 + index
    endpoint.answer = refusing(status, texts[poison])
    with pytest.raises(TextRejectedError) as refused:
        await embedder.embed_documents(texts)
    assert (refused.value.position, f"HTTP status {status}" in str(refused.value)) == (poison, True)


async def test_oversized_batch_is_split_in_half(endpoint: Endpoint, embedder: OpenAICompatibleEmbedder) -> None:
    endpoint.answer = lambda body: error(413) if len(body["input"]) > 1 else ok(body)
    vectors = await embedder.embed_documents(["a", "b", "c"])
    assert [np.frombuffer(vector, "<f4") for vector in vectors] == [expected("a"), expected("b"), expected("c")]


async def test_misconfiguration_rejects_no_text(endpoint: Endpoint, embedder: OpenAICompatibleEmbedder) -> None:
    endpoint.answer = lambda _: error(400)
    assert (await failure(embedder)).metadata["cause"] == "misconfigured"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0])
async def test_text_with_an_unusable_vector_is_rejected(
    endpoint: Endpoint, embedder: OpenAICompatibleEmbedder, number: float
) -> None:
    unusable = base64.b64encode(np.full(DIMENSION, number, "<f4").tobytes()).decode()

    def answer(body: dict[str, Any]) -> Reply:
        vectors = [unusable if text == "poison" else embedding(text, "base64") for text in body["input"]]
        return reply({"data": [{"embedding": vector} for vector in vectors]})

    endpoint.answer = answer
    with pytest.raises(TextRejectedError) as refused:
        await embedder.embed_documents(["tea", "poison"])
    assert refused.value.position == 1


async def test_rejected_query_is_an_invalid_field(endpoint: Endpoint, embedder: OpenAICompatibleEmbedder) -> None:
    endpoint.answer = refusing(400, "poison")
    with pytest.raises(Fault) as refused:
        await embedder.embed_query("poison")
    assert refused.value.reason == Reason.ERROR_REASON_INVALID_FIELD
    assert [violation.field for violation in refused.value.violations] == ["query_text"]
