"""Tests for RecallService over gRPC, in one process and in two, with the sample."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from pydantic import SecretStr

from chat_messages import new_message
from nomemory.client import Client
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_planner import RecallSettingsError
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from running_server import started

if TYPE_CHECKING:
    from running_server import Server

SAMPLE = Path(__file__).parents[2] / "sample"
QUESTIONS = [json.loads(line) for line in (SAMPLE / "questions.jsonl").read_text("utf-8").splitlines()]
MESSAGES = {
    (splitline["user_id"], splitline["message_id"]): splitline
    for splitline in map(json.loads, (SAMPLE / "messages.jsonl").read_text("utf-8").splitlines())
}


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the sample and without semantic search."""
    data = tmp_path_factory.mktemp("remembering")
    with started(
        Settings.from_environment(data=data, listen="127.0.0.1:0", embedder="none", drain_timeout_s=0.0)
    ) as server:
        with Client(server.target) as client:
            messages: Any = ({**item, "ts": datetime.fromisoformat(item["ts"])} for item in MESSAGES.values())
            written = client.import_messages(messages)
            client.lexical_search("lin", "a", at_least=written.write_token)
        yield server


def statements(reply: r.RecallResponse) -> list[r.Statement]:
    view = reply.memory_view
    return [*view.preferences, *view.profile, *view.constraints]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["question_id"])
def test_every_statement_quotes_earlier_messages_of_its_user(remembering: Server, question: dict[str, str]) -> None:
    with Client(remembering.target) as client:
        now = datetime.fromisoformat(question["now"])
        reply = client.recall(question["question"], user_id=question["user_id"], now=now, include_trace=True)
    for statement in statements(reply):
        assert statement.citations
        for citation in statement.citations:
            message = MESSAGES[question["user_id"], citation.message_id]
            assert message["content"][citation.span.start : citation.span.end] == citation.quote != ""
    for item in reply.evidence:
        message = MESSAGES[question["user_id"], item.message.message_id]
        assert datetime.fromisoformat(message["ts"]) < now
        assert message["content"].startswith(item.message.content)
    assert len(reply.evidence) <= 6
    assert 0 < reply.limits.tool_calls <= sum(1 for step in reply.trace if step.tool)


def test_recall_only_server_returns_the_same_answer(
    remembering: Server, start: Callable[[Settings], AbstractContextManager[Server]], tmp_path: Path
) -> None:
    alone = Settings.from_environment(
        data=tmp_path / "nothing", listen="127.0.0.1:0", recall_upstream=remembering.target, drain_timeout_s=0.0
    )
    request = r.RecallRequest(question="我对什么过敏？")
    metadata = (("x-user-id", "lin"),)
    with (
        start(alone) as remote,
        grpc.insecure_channel(remote.target) as far,
        grpc.insecure_channel(remembering.target) as near,
    ):
        answers = [RecallServiceStub(channel).Recall(request, metadata=metadata) for channel in (far, near)]
    assert statements(answers[0])
    assert answers[0].memory_view == answers[1].memory_view
    assert [item.message for item in answers[0].evidence] == [item.message for item in answers[1].evidence]
    assert not (tmp_path / "nothing").exists()


def test_recall_reports_an_unavailable_upstream(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    lost = own_settings.copy_with_changes(recall_upstream="127.0.0.1:9")
    with start(lost) as server, grpc.insecure_channel(server.target) as channel:
        with pytest.raises(grpc.RpcError) as error:
            RecallServiceStub(channel).Recall(
                r.RecallRequest(question="anything"), metadata=(("x-user-id", "lin"),), timeout=20
            )
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_remote_upstream_without_tls_is_rejected(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    far = own_settings.copy_with_changes(recall_upstream="192.0.2.1:7700")
    with pytest.raises(RecallSettingsError, match="without TLS"), start(far):
        pass


def test_an_upstream_key_requires_authentication_of_callers(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    guarded = {"recall_upstream": "127.0.0.1:7700", "recall_upstream_api_key": SecretStr("nm_a_b")}
    opened = own_settings.copy_with_changes(**guarded)
    with pytest.raises(RecallSettingsError, match="callers are not authenticated"), start(opened):
        pass


@pytest.mark.parametrize(("requested", "expected"), [(0, 6), (9, 9), (1_000_000, 50)])
def test_request_can_raise_the_evidence_limit(server: Server, requested: int, expected: int) -> None:
    days = [f"On day {number} I walked around the lake." for number in range(60)]
    with Client(server.target) as client:
        messages = [new_message("eve", f"m{number}", day, 1_700_000_000 + number) for number, day in enumerate(days)]
        client.lexical_search("eve", "lake", at_least=client.write(messages).write_token)
        reply = client.recall("Where around the lake do I walk?", user_id="eve", evidence_messages=requested)
    assert len(reply.evidence) == expected
    assert all(item.message.content in days for item in reply.evidence)


def test_request_can_lower_the_budget(remembering: Server) -> None:
    with grpc.insecure_channel(remembering.target) as channel:
        reply = RecallServiceStub(channel).Recall(
            r.RecallRequest(
                question="你记得我有什么饮食偏好吗？",
                budget=r.RecallBudget(max_iterations=1, max_evidence_messages=2, max_tool_calls=3),
            ),
            metadata=(("x-user-id", "lin"),),
        )
    assert len(reply.evidence) <= 2
    assert reply.limits.iterations == 1
    assert reply.limits.tool_calls <= 3
