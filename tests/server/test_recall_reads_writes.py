"""Tests that a recall with a write token finds that write, and that lagging indexes prevent a denial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from pydantic import SecretStr

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import refusal
from running_server import started

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], AbstractContextManager["Server"]]
NOBODY_LISTENS = "http://127.0.0.1:9/v1"
EAST = (1.0, 0.0, 0.0, 0.0)


@contextmanager
def recalling(server: Server) -> Iterator[RecallServiceStub]:
    with grpc.insecure_channel(server.target) as channel:
        yield RecallServiceStub(channel)


def as_user(user: str) -> tuple[tuple[str, str], ...]:
    return (("x-user-id", user),)


def write(server: Server, user: str, n: int, embedding: tuple[float, ...] = ()) -> str:
    message = new_message(user, f"m{n}", f"The code of locker {n} is {n * 7919}.", ts=n, embedding=embedding)
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[message])).write_token


def streamed(request: r.RecallRequest) -> r.StreamRecallRequest:
    """Return the same question as a stream."""
    return r.StreamRecallRequest.FromString(request.SerializeToString())


def recall_request(n: int, token: str) -> r.RecallRequest:
    return r.RecallRequest(question=f"What is the code of locker {n}?", at_least=token)


def evidence_ids(reply: r.RecallResponse) -> set[str]:
    return {item.message.message_id for item in reply.evidence}


@pytest.mark.parametrize("kind", ["none", "own vectors", "embedded"])
def test_every_write_is_recalled_immediately(kind: str, request: pytest.FixtureRequest, user: str) -> None:
    server: Server = request.getfixturevalue("server" if kind == "embedded" else "vector_server")
    embedding = EAST if kind == "own vectors" else ()
    if kind == "embedded":  # starting the embedder can take longer than a recall waits
        first = q.SemanticSearchRequest(user_id=user, query_text="locker", at_least=write(server, user, 20))
        server.query.SemanticSearch(first, timeout=60)
    missed = []
    with recalling(server) as stub:
        for n in range(20):
            token = write(server, user, n, embedding)
            if f"m{n}" not in evidence_ids(stub.Recall(recall_request(n, token), metadata=as_user(user))):
                missed.append(n)
    assert not missed


def test_stream_reads_its_own_writes(vector_server: Server, user: str) -> None:
    with recalling(vector_server) as stub:
        for n in range(10):
            token = write(vector_server, user, n, embedding=EAST)
            events = list(stub.StreamRecall(streamed(recall_request(n, token)), metadata=as_user(user)))
            assert f"m{n}" in evidence_ids(events[-1].result)


def test_recall_only_server_waits_for_writes_of_its_upstream(
    vector_server: Server, start: Start, tmp_path: Path, user: str
) -> None:
    alone = Settings.from_environment(
        data=tmp_path / "nothing", listen="127.0.0.1:0", recall_upstream=vector_server.target, drain_timeout_s=0.0
    )
    with start(alone) as remote, recalling(remote) as stub:
        for n in range(10):
            token = write(vector_server, user, n, embedding=EAST)
            assert f"m{n}" in evidence_ids(stub.Recall(recall_request(n, token), metadata=as_user(user)))
        with pytest.raises(grpc.RpcError) as error:
            stub.Recall(recall_request(1, "w_nonsense"), metadata=as_user(user))
        assert refusal(error.value).reason == "WRITE_TOKEN_INVALID"


@pytest.mark.parametrize("token", ["w_", "nonsense", "w_" + "A" * 60])
def test_invalid_write_token_is_rejected(vector_server: Server, user: str, token: str) -> None:
    with recalling(vector_server) as stub:
        stream_request = streamed(recall_request(1, token))
        for call in (
            lambda: stub.Recall(recall_request(1, token), metadata=as_user(user)),
            lambda: list(stub.StreamRecall(stream_request, metadata=as_user(user))),
        ):
            with pytest.raises(grpc.RpcError) as error:
                call()
            refused = refusal(error.value)
            assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
            assert (refused.reason, refused.fields) == ("WRITE_TOKEN_INVALID", ["at_least"])


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RecallServiceStub, str]]:
    """A server whose embedder never answers, with one message of `u`, and its write token."""
    stuck = Settings.from_environment(
        data=tmp_path_factory.mktemp("behind"),
        listen="127.0.0.1:0",
        embedder="openai",
        embedding_model="absent",
        embedding_dimension=4,
        openai_base_url=NOBODY_LISTENS,
        openai_api_key=SecretStr("none"),
        drain_timeout_s=0.0,
    )
    with started(stuck) as server, recalling(server) as stub:
        token = write(server, "u", 1)
        server.query.LexicalSearch(q.LexicalSearchRequest(user_id="u", query_text="code", at_least=token))
        yield stub, token


def test_answers_are_not_insufficient_while_an_index_lags(behind: tuple[RecallServiceStub, str]) -> None:
    stub, _ = behind
    for question in ("Where did the zebra sleep?", "斑马睡在哪里？"):
        pending = stub.Recall(r.RecallRequest(question=question), metadata=as_user("u"), timeout=20)
        assert pending.verdict == r.VERDICT_PENDING
        assert pending.limits.index_lagging
        assert not pending.memory_view.ByteSize()
        others = stub.Recall(r.RecallRequest(question=question), metadata=as_user("other"), timeout=20)
        assert others.verdict == r.VERDICT_INSUFFICIENT
        assert not others.limits.index_lagging


def test_waiting_ends_at_the_deadline(behind: tuple[RecallServiceStub, str]) -> None:
    stub, token = behind
    with pytest.raises(grpc.RpcError) as error:
        stub.Recall(recall_request(1, token), metadata=as_user("u"), timeout=2)
    assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert refusal(error.value).reason == "INDEX_LAGGING"
    answered = stub.Recall(recall_request(1, token), metadata=as_user("other"), timeout=20)
    assert answered.verdict == r.VERDICT_INSUFFICIENT
