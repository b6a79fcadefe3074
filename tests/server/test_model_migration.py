"""Tests that the previous model serves until the new index is complete."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest
from server.fleet import Fleet, fleet, until
from server.models import DIMENSION, Models, models

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import server_service_pb2 as s
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.server_service_pb2_grpc import ServerServiceStub
from running_server import started

FORMER, NEW = "former", "new"
COUNT = 12
TEXTS = [f"text {n}" for n in range(COUNT)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Models]:
    """The endpoint of the previous model, and of the new one unless a test has another."""
    with models() as served:
        yield served


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, endpoint: Models) -> Path:
    """A data directory whose messages are embedded with the previous model."""
    data = tmp_path_factory.mktemp("embedded") / "data"
    with here(data, endpoint, FORMER) as channel:
        assert is_exact(nearest(channel, TEXTS[0], write(channel, *TEXTS)), TEXTS[0])
        assert until((data / "vectors" / "model.json").exists)
        assert until(lambda: status(channel).vector.checkpoint == COUNT)
    return data


@pytest.fixture
def data(tmp_path: Path, embedded: Path, endpoint: Models) -> Iterator[Path]:
    """A copy of the embedded directory."""
    copy = tmp_path / "data"
    shutil.copytree(embedded, copy)
    yield copy
    endpoint.release()
    endpoint.embedded.pop(NEW, None)
    endpoint.useless.clear()


def of_model(endpoint: Models, model: str) -> dict[str, str]:
    """Return the environment of a server with a model."""
    return {
        "NOMEMORY_EMBEDDER": "openai", "OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": "secret-key",
        "NOMEMORY_EMBEDDING_MODEL": model, "NOMEMORY_EMBEDDING_DIMENSION": str(DIMENSION),
        "NOMEMORY_EMBEDDING_BATCH_SIZE": "2", "NOMEMORY_DRAIN_TIMEOUT_S": "0",
        "NOMEMORY_VECTOR_FLUSH_INTERVAL_S": "0.1",
    }  # fmt: skip


def run(data: Path, endpoint: Models, model: str, /, **more: str) -> AbstractContextManager[Fleet]:
    """Run a server in a separate process."""
    return fleet(data, **of_model(endpoint, model) | more)


@contextmanager
def here(data: Path, endpoint: Models, model: str, **more: str) -> Iterator[grpc.Channel]:
    """Run a server in this process, which starts faster; return a channel."""
    variables = {"NOMEMORY_DATA": str(data), "NOMEMORY_LISTEN": "127.0.0.1:0", **of_model(endpoint, model), **more}
    settings = Settings.from_environment(
        **{name.removeprefix("NOMEMORY_").lower(): value for name, value in variables.items()}
    )
    with started(settings) as server, grpc.insecure_channel(server.target) as channel:
        yield channel


def write(channel: grpc.Channel, *texts: str) -> str:
    messages = [new_message("u", text.replace(" ", "-"), text, ts=n) for n, text in enumerate(texts)]
    return IngestServiceStub(channel).WriteMessages(i.WriteMessagesRequest(messages=messages), timeout=30).write_token


def nearest(channel: grpc.Channel, text: str, at_least: str = "") -> q.SemanticSearchResponse:
    request = q.SemanticSearchRequest(user_id="u", query_text=text, top_k=50, at_least=at_least)
    return QueryServiceStub(channel).SemanticSearch(request, timeout=30)


def status(channel: grpc.Channel) -> i.GetIndexStatusResponse:
    return IngestServiceStub(channel).GetIndexStatus(i.GetIndexStatusRequest(), timeout=30)


def is_switched(channel: grpc.Channel) -> bool:
    now = status(channel)
    return now.embedder.model == NEW and not now.HasField("next_vector") and not now.vector.pending


def collections(data: Path) -> list[str]:
    return sorted(path.parent.name for path in (data / "vectors").glob("*/vectors.db"))


def is_exact(response: q.SemanticSearchResponse, text: str) -> bool:
    """Return whether query and index use the same model: only then has an equal text similarity 1."""
    best = response.items[0]
    return best.message.content == text and best.score > 0.999


def test_previous_model_serves_until_the_new_index_is_complete_despite_a_crash_and_reads_never_mix_two_models(
    data: Path, endpoint: Models
) -> None:
    endpoint.hold(NEW, after=4)
    with run(data, endpoint, NEW) as server, grpc.insecure_channel(server.target) as channel:
        assert until(lambda: 0 < status(channel).next_vector.pending < COUNT)
        assert_previous_model_serves(channel)
        assert is_exact(nearest(channel, "a later one", write(channel, "a later one")), "a later one")
        server.process.kill()
    endpoint.hold(NEW, after=8)
    with here(data, endpoint, NEW, NOMEMORY_EMBEDDING_CACHE_SIZE="0") as channel:
        assert until(lambda: len(endpoint.embedded[NEW]) >= 8)
        assert_previous_model_serves(channel)
        with searching(channel) as answers:
            assert until(lambda: len(answers) > 20)
            endpoint.release()
            assert until(lambda: is_switched(channel))
            call_count = len(answers)
            assert until(lambda: len(answers) > call_count + 20)
        assert {answer.embedding_model for answer in answers} == {FORMER, NEW}
        assert all(len(answer.items) == COUNT + 1 and not answer.index_lagging for answer in answers)
        assert endpoint.embedded[NEW].count(TEXTS[0]) == 1, "indexing resumed at its checkpoint"
        for text in (*TEXTS, "a later one"):
            response = nearest(channel, text)
            assert is_exact(response, text)
            assert (response.embedding_model, response.index_lagging, len(response.items)) == (NEW, False, COUNT + 1)
        assert until(lambda: collections(data) == [f"new-{DIMENSION}"])
        assert info(channel).embedding_model == NEW
    assert json.loads((data / "vectors" / "model.json").read_text())["collection"] == f"new-{DIMENSION}"
    assert b"secret-key" not in (data / "vectors" / "model.json").read_bytes()


def assert_previous_model_serves(channel: grpc.Channel) -> None:
    now = status(channel)
    assert (now.vector.name, now.embedder.model) == (f"former-{DIMENSION}", FORMER)
    assert (now.next_vector.name, now.next_embedder.model) == (f"new-{DIMENSION}", NEW)
    response = nearest(channel, TEXTS[3])
    assert is_exact(response, TEXTS[3])
    assert (response.embedding_model, response.index_lagging, info(channel).embedding_model) == (FORMER, False, FORMER)


def info(channel: grpc.Channel) -> s.GetServerInfoResponse:
    return ServerServiceStub(channel).GetServerInfo(s.GetServerInfoRequest(), timeout=30)


@contextmanager
def searching(channel: grpc.Channel) -> Iterator[list[q.SemanticSearchResponse]]:
    """Search for all texts but the first in three threads until the context exits; each search must find its text."""
    answers: list[q.SemanticSearchResponse] = []
    failures: list[grpc.RpcError | AssertionError] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                answers.append(nearest(channel, TEXTS[1 + len(answers) % (COUNT - 1)]))
                assert answers[-1].items[0].score > 0.999
            except (grpc.RpcError, AssertionError) as error:
                failures.append(error)

    with ExitStack() as stack:
        for _ in range(3):
            thread = threading.Thread(target=ask)
            stack.callback(thread.join)
            thread.start()
        stack.callback(stop.set)
        yield answers
    assert not failures


def test_if_the_previous_model_is_unavailable_the_new_one_serves_partial_results(data: Path, endpoint: Models) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        gone = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
    remember(data, endpoint.url, gone)
    endpoint.hold(NEW, after=4)
    patient = run(data, endpoint, NEW, NOMEMORY_PREVIOUS_EMBEDDING_TIMEOUT_S="0.5")
    with patient as server, grpc.insecure_channel(server.target) as channel:
        assert until(lambda: answers_with(channel, NEW))
        response = nearest(channel, "words")
        assert response.index_lagging
        assert len(response.items) < COUNT
        assert "former is unavailable" in status(channel).vector.notice
        server.process.kill()
    with here(data, endpoint, NEW) as channel:
        assert "replaced before indexing was complete" in status(channel).vector.notice
        endpoint.release()
        assert until(lambda: is_switched(channel))
        assert until(lambda: not status(channel).vector.notice)
        assert is_exact(nearest(channel, TEXTS[5]), TEXTS[5])
        assert until(lambda: collections(data) == [f"new-{DIMENSION}"])


def remember(data: Path, word: str, other: str) -> None:
    """Change the stored record of the previous model."""
    remembered = data / "vectors" / "model.json"
    assert word in remembered.read_text()
    remembered.write_text(remembered.read_text().replace(word, other))


def answers_with(channel: grpc.Channel, model: str) -> bool:
    """Search semantically; if a model is unavailable, the result is lexical."""
    request = q.HybridSearchRequest(user_id="u", query_text="words")
    return QueryServiceStub(channel).HybridSearch(request, timeout=30).embedding_model == model


@pytest.mark.parametrize("kind", ["a package that is gone", None])
def test_unavailable_previous_model_is_reported(data: Path, endpoint: Models, kind: str | None) -> None:
    if kind:
        remember(data, '"openai"', f'"{kind}"')
    else:
        (data / "vectors" / "model.json").unlink()
    endpoint.hold(NEW, after=0)
    with here(data, endpoint, NEW) as channel:
        now = status(channel)
        assert (now.embedder.model, now.HasField("next_vector")) == (NEW, False)
        assert "is unavailable" in now.vector.notice
        assert (kind or "its settings were not recorded") in now.vector.notice
        assert collections(data) == [f"former-{DIMENSION}", f"new-{DIMENSION}"], "nothing is deleted yet"
        endpoint.release()
        assert until(lambda: is_switched(channel))
        assert until(lambda: not status(channel).vector.notice)
        assert until(lambda: collections(data) == [f"new-{DIMENSION}"])


@pytest.mark.parametrize(
    ("key", "sent"), [({}, "none"), ({"NOMEMORY_PREVIOUS_EMBEDDING_API_KEY": "former-key"}, "former-key")]
)
def test_api_key_is_never_sent_to_another_endpoint(
    data: Path, endpoint: Models, key: dict[str, str], sent: str
) -> None:
    endpoint.keys.clear()
    with models() as other:
        other.hold(NEW, after=0)
        with here(data, other, NEW, OPENAI_API_KEY="new-key", **key) as channel:
            assert nearest(channel, "words").embedding_model == FORMER
            other.release()  # otherwise the shutdown waits for its answer
        assert endpoint.keys == {FORMER: {f"Bearer {sent}"}}
        assert other.keys.get(NEW, {"Bearer new-key"}) == {"Bearer new-key"}


def test_index_is_kept_while_no_model_is_configured(data: Path, endpoint: Models, own_settings: Settings) -> None:
    with started(own_settings.copy_with_changes(data=data)) as server, grpc.insecure_channel(server.target) as channel:
        assert until(lambda: status(channel).vector.checkpoint == COUNT)
    embedded = len(endpoint.embedded[FORMER])
    with here(data, endpoint, FORMER) as channel:
        response = nearest(channel, TEXTS[2])
        assert is_exact(response, TEXTS[2])
        assert (len(response.items), response.embedding_model) == (COUNT, FORMER)
    assert endpoint.embedded[FORMER][embedded:] == [TEXTS[2]]


def test_return_to_the_previous_model_loses_nothing(data: Path, endpoint: Models) -> None:
    endpoint.hold(NEW, after=4)
    soon = {"NOMEMORY_EMBEDDING_TIMEOUT_S": "2"}  # release the waiting call, so that the server can stop
    with here(data, endpoint, NEW, **soon) as channel:
        assert until(lambda: status(channel).next_vector.pending > 0)
    with here(data, endpoint, FORMER) as channel:
        assert is_exact(nearest(channel, TEXTS[2]), TEXTS[2])
        assert not status(channel).HasField("next_vector")
        assert until(lambda: collections(data) == [f"former-{DIMENSION}"])


def test_the_current_model_serves_while_a_third_is_indexed_after_a_crash(data: Path, endpoint: Models) -> None:
    with (
        run(data, endpoint, NEW, NOMEMORY_VECTOR_FLUSH_INTERVAL_S="60") as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        assert until(lambda: is_switched(channel))
        server.process.kill()
    endpoint.hold("third", after=0)
    with here(data, endpoint, "third") as channel:
        assert status(channel).next_vector.name == f"third-{DIMENSION}"
        response = nearest(channel, TEXTS[3])
        assert is_exact(response, TEXTS[3])
        assert (response.embedding_model, len(response.items)) == (NEW, COUNT)
        endpoint.release()  # otherwise the shutdown waits for its answer


def test_model_that_fails_on_most_messages_is_not_activated(data: Path, endpoint: Models) -> None:
    endpoint.useless.add(NEW)
    with here(data, endpoint, NEW) as channel:
        assert until(lambda: "cannot embed many messages" in status(channel).vector.notice)
        assert status(channel).next_vector.dead_letters == COUNT
        assert is_exact(nearest(channel, TEXTS[2]), TEXTS[2])
        assert collections(data) == [f"former-{DIMENSION}", f"new-{DIMENSION}"]


def test_erasure_that_waits_for_a_new_index_is_reported(data: Path, endpoint: Models) -> None:
    endpoint.hold(NEW, after=4)
    soon = {
        "NOMEMORY_ERASE_WITHIN_S": "6",
        "NOMEMORY_ERASE_MAX_RETRY_DELAY_S": "0.1",
    }  # the lexical index keeps up with these writes
    with here(data, endpoint, NEW, **soon) as channel:
        ingest = IngestServiceStub(channel)
        ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="u", message_ids=["text-11"]))
        waits = (i.FAULT_KIND_ERASURE_BLOCKED, f"the index new-{DIMENSION} lags behind the message log")
        assert until(lambda: [(fault.kind, fault.detail) for fault in status(channel).faults] == [waits]), [
            str(fault) for fault in status(channel).faults
        ]
        receipt = ingest.EraseUser(i.EraseUserRequest(user_id="u"))
        assert {residue.location for residue in receipt.residues if residue.HasField("purge_ts")} == {
            i.STORAGE_LOCATION_LEXICAL_INDEX,
            i.STORAGE_LOCATION_VECTOR_BACKLOG,
        }
        endpoint.release()
        assert until(lambda: not status(channel).faults)
