"""Tests for the effect of each setting with a value other than the default."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Any

import grpc
import jwt
import pytest
from identity.issuer import AUDIENCE, ISSUER, SECRET, claims

from chat_messages import new_message
from nomemory.recall.model.sufficiency import SufficiencyThresholds
from nomemory.server.api.identity.factory import make_authenticator
from nomemory.server.api.services.recall_runner import RecallRunner
from nomemory.server.faults import Fault
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.metrics.process_registry import ProcessRegistry
from nomemory.server.runtime.processes.watchdog import build_watch_policy
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.wiring import postgres_store, recall_wiring, services
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import Server

Start = Callable[[Settings], AbstractContextManager[Server]]


async def test_a_token_that_has_just_expired_is_valid_within_the_leeway() -> None:
    token = jwt.encode(claims("ann", exp=int(time.time()) - 60), SECRET, "HS256")
    metadata = (("authorization", f"Bearer {token}"),)

    def settings(leeway_s: float) -> Settings:
        return Settings.from_environment(
            jwt_secret=SECRET,
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
            jwt_default_scopes="query",
            jwt_leeway_s=leeway_s,
        )

    assert (await make_authenticator(settings(600.0)).authenticate(metadata, dict)).user_id == "ann"
    with pytest.raises(Fault):
        await make_authenticator(settings(0.0)).authenticate(metadata, dict)


def test_write_is_rejected_if_the_queue_is_full(start: Start, own_settings: Settings) -> None:
    write = i.WriteMessagesRequest(messages=[new_message("u", "", "x" * 1000)])
    with (
        start(own_settings.copy_with_changes(max_queued_write_bytes=2000)) as server,
        closing(sqlite3.connect(own_settings.server.data / "log.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")  # the writer waits, and later writes are queued
        writes = [server.ingest.WriteMessages.future(write) for _ in range(10)]
        reasons = [refusal(error).reason for sent in writes if isinstance(error := refused_soon(sent), grpc.RpcError)]
        other.execute("ROLLBACK")
    assert reasons
    assert set(reasons) == {"OVERLOADED"}


def refused_soon(sent: Any) -> BaseException | None:  # noqa: ANN401 - grpc's own future
    """Return the error of a call that ends within half a second; None if it does not end."""
    try:
        error: BaseException | None = sent.exception(timeout=0.5)
    except grpc.FutureTimeoutError:
        return None
    return error


def test_ranking_step_can_be_disabled(start: Start, own_settings: Settings) -> None:
    def components(settings: Settings) -> set[str]:
        with start(settings) as server:
            written = server.ingest.WriteMessages(
                i.WriteMessagesRequest(messages=[new_message("u", "m", "the ferry leaves at nine", ts=1)], replace=True)
            )
            request = q.HybridSearchRequest(
                user_id="u", query_text="When does the ferry leave?", explain=True, at_least=written.write_token
            )
            (item,) = server.query.HybridSearch(request).items
            return {component.name for component in item.explanation.components}

    assert "speaker" in components(own_settings)
    assert "speaker" not in components(own_settings.copy_with_changes(hybrid_disabled_features="around speaker"))
    with (
        pytest.raises(StartupError, match="unknown ranking steps: words; available: meaning,"),
        start(own_settings.copy_with_changes(hybrid_disabled_features="words")),
    ):
        pass


def test_concurrent_expensive_reads_are_limited(
    start: Start, own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    class Recorded(RoundRobinLimit):
        def __init__(self, slots: int) -> None:
            limits.append(slots)
            super().__init__(slots)

    monkeypatch.setattr(services, "RoundRobinLimit", Recorded)
    with start(own_settings.copy_with_changes(expensive_read_concurrency=7)):
        assert limits == [7]


def test_recall_budget_and_threshold_follow_the_settings(
    start: Start, own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: list[SufficiencyThresholds] = []

    class Recorded(RecallRunner):
        def __init__(self, *parts: Any) -> None:  # noqa: ANN401 - those of the host
            rules.extend(part for part in parts if isinstance(part, SufficiencyThresholds))
            super().__init__(*parts)

    monkeypatch.setattr(recall_wiring, "RecallRunner", Recorded)
    settings = own_settings.copy_with_changes(
        recall_max_tool_calls=5,
        recall_evidence_messages=3,
        recall_quote_threshold=0.3,
        recall_sufficiency_threshold=0.9,
        recall_sufficiency_possible=0.4,
    )
    budget = recall_wiring.build_recall_budget(settings)
    assert (budget.tool_calls, budget.evidence_messages) == (5, 3)
    with start(settings):
        assert [(rule.quoted, rule.supported, rule.possible) for rule in rules] == [(0.3, 0.9, 0.4)]


def test_watchdog_limits_follow_the_settings() -> None:
    settings = Settings.from_environment(
        process_heartbeat_s=0.5, process_idle_timeout_s=7.0, process_busy_timeout_s=90.0, process_memory_bytes=1 << 30
    )
    policy = build_watch_policy(settings.processes, ActiveFaults(), ProcessRegistry())
    assert (policy.heartbeat_s, policy.idle_timeout_s, policy.busy_timeout_s) == (0.5, 7.0, 90.0)
    assert policy.memory_max_bytes == 1 << 30


def test_postgresql_connection_limits_follow_the_settings(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, object] = {}
    monkeypatch.setattr(postgres_store, "Database", lambda _url, **options: limits.update(options))
    changed = {"pool_size": 3, "connect_timeout_s": 1.5, "statement_timeout_s": 9.0}
    settings = own_settings.copy_with_changes(
        postgres_pool_size=3, postgres_connect_timeout_s=1.5, postgres_statement_timeout_s=9.0
    )
    postgres_store.PostgresStore(settings, DataDirectory.from_settings(settings), "postgresql://nowhere/x")
    assert limits == changed
