"""A reranker reads the best messages of a hybrid search once more; without it, a search goes on."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from embedding.test_directory_model import write_model as write_embedder
from reranking.tiny_model import write_model
from server.fleet import command, connected, environment, fleet, until

from nomemory.server.reranking.worker import CrossEncoder
from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from talk import said

if TYPE_CHECKING:
    from served import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

QUESTION = "where is the key"
TALK = ("the key the key", "a stone", "the blue key is under a stone", "where", "nothing of it")
FAKE = """
import os, time
class TextCrossEncoder:
    def __init__(self, model_name, threads):
        if model_name != "named":
            raise ValueError(f"Model {model_name} is not supported")
    def rerank(self, query, documents):
        while os.path.exists(os.environ["HOLD"]):
            time.sleep(0.02)
        return (9.0 if "blue" in text else -9.0 for text in documents)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def asked(query: QueryServiceStub, user: str = "u", **more: object) -> q.HybridSearchResponse:
    request = q.HybridSearchRequest(user_id=user, query_text=QUESTION, explain=True, **more)  # type: ignore[arg-type]
    return query.HybridSearch(request, timeout=30)


def write(ingest: IngestServiceStub, user: str = "u", talk: tuple[str, ...] = TALK) -> str:
    messages = [said(user, f"m{n}", text, ts=n) for n, text in enumerate(talk)]
    return ingest.WriteMessages(i.WriteMessagesRequest(messages=messages), timeout=30).write_token


def reranked(reply: q.HybridSearchResponse) -> dict[str, float]:
    """Return what the reranker added to each message."""
    parts = ((item.message.message_id, part) for item in reply.items for part in item.explanation.components)
    return {message_id: part.value for message_id, part in parts if part.name == "rerank"}


def faults(ingest: IngestServiceStub) -> dict[str, str]:
    status = ingest.GetIndexStatus(i.GetIndexStatusRequest(), timeout=30)
    return {fault.kind: fault.detail for fault in status.faults if fault.part == "reranker"}


def test_a_cross_encoder_reads_question_and_text_together(model: Path) -> None:
    logits = CrossEncoder(model, 1).logits(QUESTION, ["the key", "a stone", "a blue stone is under the key"])
    assert logits == [6, -2, 10]


def test_the_score_of_the_reranker_is_a_component_like_the_others(
    start: Start, own_settings: Settings, model: Path
) -> None:
    with start(own_settings) as server:
        plain = asked(server.query, at_least=write(server.ingest))
    settings = own_settings.with_changes(reranker=str(model), reranker_weight=2.0, reranker_timeout_s=20.0)
    with start(settings) as server:
        assert until(lambda: bool(reranked(asked(server.query))))
        found = asked(server.query)
        assert faults(server.ingest) == {}
    before = {item.message.message_id: item.score for item in plain.items}
    expected = {"m0": 14, "m2": 10, "m3": 2}
    for item in found.items:
        message_id = item.message.message_id
        assert sum(part.value for part in item.explanation.components) == pytest.approx(item.score, abs=1e-5)
        added = 2 / (1 + math.exp(-expected.get(message_id, -2)))
        assert item.score == pytest.approx(before[message_id] + added, abs=1e-5)
    assert [item.score for item in found.items] == sorted((item.score for item in found.items), reverse=True)
    assert found.sufficiency == plain.sufficiency


def test_only_the_first_are_read_and_they_stay_first(start: Start, own_settings: Settings, model: Path) -> None:
    settings = own_settings.with_changes(reranker=str(model), reranker_timeout_s=20.0, reranker_messages_max=2)
    with start(settings) as server:
        token = write(server.ingest)
        assert until(lambda: bool(reranked(asked(server.query))))
        whole = asked(server.query, at_least=token)
        assert set(reranked(whole)) == {item.message.message_id for item in whole.items[:2]}
        best = asked(server.query, top_k=1)
        assert best.items[0] == whole.items[0], "a message that is left out has been read, too"


def test_every_process_of_a_server_has_it_and_no_text_of_another_user(tmp_path: Path, model: Path) -> None:
    more = {"NOMEMORY_RERANKER": str(model), "NOMEMORY_RERANKER_TIMEOUT_S": "20"}
    with fleet(tmp_path / "data", 2, connected, **more) as server:
        channels = server.channels()
        token = write(IngestServiceStub(channels[0]), "other", ("where is the key of the other",))
        token = write(IngestServiceStub(channels[0])) or token
        answers = []
        for channel in channels.values():
            query = QueryServiceStub(channel)
            assert until(lambda query=query: bool(reranked(asked(query, at_least=token))))  # type: ignore[misc]
            answers.append(asked(query))
        assert answers[0].items == answers[1].items
        assert {item.message.user_id for item in answers[0].items} == {"u"}


def test_one_that_is_late_is_left_out_and_said_until_it_is_in_time(tmp_path: Path) -> None:
    package = tmp_path / "packages" / "fastembed" / "rerank"
    package.mkdir(parents=True)
    for name, text in {"../__init__.py": "", "__init__.py": "", "cross_encoder.py": FAKE}.items():
        (package / name).write_text(text)
    hold = tmp_path / "hold"
    hold.touch()
    more = {
        "NOMEMORY_RERANKER": "named", "NOMEMORY_RERANKER_TIMEOUT_S": "0.3", "NOMEMORY_RERANKER_WEIGHT": "5",
        "PYTHONPATH": str(tmp_path / "packages"), "HOLD": str(hold),
    }  # fmt: skip
    with fleet(tmp_path / "data", 1, connected, **more) as server, grpc.insecure_channel(server.target) as channel:
        query, ingest = QueryServiceStub(channel), IngestServiceStub(channel)
        token = write(ingest)
        assert until(lambda: bool(asked(query, at_least=token).items) and "LATE" in faults(ingest))
        assert "longer than 0.3 s" in faults(ingest)["LATE"]
        assert reranked(asked(query)) == {}
        hold.unlink()
        replies: list[q.HybridSearchResponse] = []

        def is_back() -> bool:
            replies.append(asked(query))
            return bool(reranked(replies[-1]))

        assert until(is_back, 60)
        assert faults(ingest) == {}
        assert replies[-1].items[0].message.message_id == "m2"


def test_one_that_is_broken_is_said_and_searches_go_on(start: Start, own_settings: Settings, model: Path) -> None:
    (model / "model.onnx").write_bytes(b"no model")
    with start(own_settings.with_changes(reranker=str(model))) as server:
        assert asked(server.query, at_least=write(server.ingest)).items
        assert until(lambda: "NOT_STARTING" in faults(server.ingest))
        assert reranked(asked(server.query)) == {}


def test_an_embedder_is_no_reranker(start: Start, own_settings: Settings, tmp_path: Path) -> None:
    embedder = write_embedder(tmp_path / "embedder")
    with start(own_settings.with_changes(reranker=str(embedder))) as server:
        assert asked(server.query, at_least=write(server.ingest)).items
        assert until(lambda: "NOT_STARTING" in faults(server.ingest))
        assert "a reranker one or two" in faults(server.ingest)["NOT_STARTING"]


@pytest.mark.parametrize(
    ("reranker", "said_in"),
    [
        ("{model}/none", "there is no directory"),
        ("{model}", "has no tokenizer.json"),
        ("a-name", "nomemory[fastembed]"),
    ],
)
def test_what_cannot_be_a_reranker_is_refused_at_the_start(
    tmp_path: Path, model: Path, reranker: str, said_in: str
) -> None:
    (model / "tokenizer.json").unlink()
    settings = environment(tmp_path / "data", 1, NOMEMORY_RERANKER=reranker.format(model=model))
    ended = subprocess.run(command(), env=settings, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode
    assert said_in in ended.stderr
