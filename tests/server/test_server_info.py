"""Tests for GetServerInfo: features, limits and access."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from identity.calls import bearer
from identity.issuer import TRUSTED, token
from identity.keyring import Keyring

from chat_messages import new_message
from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.server import __version__
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import server_service_pb2 as s
from nomemory.v1.server_service_pb2_grpc import ServerServiceStub
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], "AbstractContextManager[Server]"]
SERVICE = "nomemory.v1.ServerService"


def server_info(server: Server) -> s.GetServerInfoResponse:
    with Client(server.target) as client:
        return client.server_info()


def test_server_info_has_version_features_and_embedding_model(vector_server: Server) -> None:
    info = server_info(vector_server)
    assert info.version == __version__
    assert list(info.features) == ["query", "ingest", "recall"]
    assert (info.embedding_model, info.embedding_dimension) == ("", 4)


def test_server_info_and_status_name_the_same_embedder(server: Server) -> None:
    info = server_info(server)
    with Client(server.target) as client:
        embedder = client.status().embedder
    has_one = embedder.kind != i.EMBEDDER_KIND_NONE
    assert info.embedding_model == (embedder.model if has_one else "")
    assert info.embedding_dimension == embedder.dimension
    assert ("semantic_search_text" in info.features) == has_one


async def test_asyncio_client_returns_the_same_server_info(vector_server: Server) -> None:
    async with AsyncClient(vector_server.target) as client:
        assert await client.server_info() == server_info(vector_server)


def test_limits_follow_the_settings(start: Start, own_settings: Settings) -> None:
    changed = {
        "max_request_bytes": 10_000,
        "max_content_bytes": 100,
        "max_batch_messages": 3,
        "max_page_size": 60,
        "max_query_chars": 50,
        "max_top_k": 30,
        "max_inflight_reads_per_user": 4,
        "max_inflight_reads_per_caller": 5,
    }
    with start(own_settings.copy_with_changes(**changed)) as server:
        limits = server_info(server).limits
    assert limits == s.ServerLimits(
        max_request_bytes=10_000,
        max_content_bytes=100,
        max_batch_messages=3,
        max_page_size=60,
        max_query_chars=50,
        max_top_k=30,
        max_turns=20,
        max_inflight_reads_per_user=4,
        max_inflight_reads_per_caller=5,
    )


def test_size_at_the_limit_is_accepted_and_above_is_rejected(start: Start, own_settings: Settings) -> None:
    small = own_settings.copy_with_changes(
        max_content_bytes=100, max_batch_messages=3, max_page_size=60, max_query_chars=50
    )
    with start(small) as server, Client(server.target) as client:
        limits = client.server_info().limits
        sizes: list[tuple[int, Callable[[int], object]]] = [
            (limits.max_content_bytes, lambda size: client.write([new_message("u", "long", "x" * size)])),
            (
                limits.max_batch_messages,
                lambda size: client.write([new_message("u", f"m{n}", "x") for n in range(size)]),
            ),
            (limits.max_page_size, lambda size: client.list_messages("u", page_size=size)),
            (limits.max_query_chars, lambda size: client.lexical_search("u", "x" * size)),
            (limits.max_top_k, lambda size: client.semantic_search("u", [1, 0, 0, 0], top_k=size)),
        ]
        for limit, send in sizes:
            send(limit)
            with pytest.raises(NoMemoryError) as error:
                send(limit + 1)
            assert error.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_recall_only_server_returns_its_server_info(
    start: Start, own_settings: Settings, vector_server: Server
) -> None:
    with start(own_settings.copy_with_changes(recall_upstream=vector_server.target)) as server:
        info = server_info(server)
    assert (info.version, list(info.features)) == (__version__, ["recall"])
    assert (info.embedding_model, info.embedding_dimension) == ("", 0)
    settings = own_settings.limits
    assert info.limits == s.ServerLimits(
        max_request_bytes=settings.max_request_bytes, max_query_chars=settings.max_query_chars, max_turns=20
    )


@pytest.mark.parametrize(
    ("chosen", "is_told"),
    [
        ({"recall_model": "some"}, True),
        ({"recall_model": "some", "recall_planner": "llm"}, True),
        ({"recall_model": "some", "recall_planner": "rules"}, False),
    ],
)
def test_chat_model_is_a_feature_if_it_plans_recalls(
    start: Start, own_settings: Settings, chosen: dict[str, str], *, is_told: bool
) -> None:
    with start(
        own_settings.copy_with_changes(**chosen, openai_api_key="k", openai_base_url="http://127.0.0.1:9/v1")
    ) as server:
        assert ("recall_model" in server_info(server).features) == is_told


def test_server_info_lists_the_current_recall_skills(start: Start, own_settings: Settings, tmp_path: Path) -> None:
    with start(own_settings.copy_with_changes(recall_skill_dirs=str(tmp_path))) as server:
        assert list(server_info(server).skills) == ["nomemory-recall-default"]
        for name in ("tea", "Not a skill", "no-file"):
            (tmp_path / name).mkdir()
        for name in ("tea", "Not a skill"):
            (tmp_path / name / "SKILL.md").write_text("---\nname: tea\n---\n", encoding="utf-8")
        assert list(server_info(server).skills) == ["nomemory-recall-default", "tea"]


def test_health_and_reflection_include_the_service(vector_server: Server) -> None:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with grpc.insecure_channel(vector_server.target) as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=SERVICE))
        (reply,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert SERVICE in [service.name for service in reply.list_services_response.service]


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    ring = Keyring(tmp_path / "keys.json")
    ring.key("query")
    return ring


def test_server_info_requires_authentication(start: Start, own_settings: Settings, keyring: Keyring) -> None:
    guarded = own_settings.copy_with_changes(api_keys=keyring.path, **TRUSTED)
    with start(guarded) as server, grpc.insecure_channel(server.target) as channel:
        ask = ServerServiceStub(channel).GetServerInfo
        let_in = [keyring.key(scope) for scope in ("query", "ingest", "recall", "admin")]
        let_in += [token("ann"), token("ann", scope="openid")]
        answers = [ask(s.GetServerInfoRequest(), metadata=bearer(item)) for item in let_in]
        callers = [(answer.caller.user_id, list(answer.caller.scopes)) for answer in answers]
        services = [("", [scope]) for scope in ("query", "ingest", "recall", "admin")]
        assert callers == [*services, ("ann", ["query", "recall"]), ("ann", [])]
        may_recall = ["recall" in scopes for _, scopes in callers]
        assert [list(answer.skills) == ["nomemory-recall-default"] for answer in answers] == may_recall
        for answer in answers:
            answer.ClearField("caller")
            answer.ClearField("skills")
        assert all(answer == answers[0] for answer in answers)
        assert "authentication" in answers[0].features
        for metadata in ((), bearer("nm_not_a_key"), bearer(token("ann", aud="elsewhere"))):
            with pytest.raises(grpc.RpcError) as error:
                ask(s.GetServerInfoRequest(), metadata=metadata)
            assert refusal(error.value).code is grpc.StatusCode.UNAUTHENTICATED


def test_authentication_is_not_a_feature_without_credentials(vector_server: Server) -> None:
    assert "authentication" not in server_info(vector_server).features
