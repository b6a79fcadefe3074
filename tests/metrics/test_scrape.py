"""Tests for scraped counters, which contain no user data."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing

import grpc
import pytest
from metrics.scraping import HTTP, scraped
from web.http_server import settings_of
from web.raw_http import all_read, connected, request

from chat_messages import new_message
from nomemory.server.runtime.metrics.catalog import BY_NAME, CATALOG
from nomemory.server.runtime.metrics.family import MetricType
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from running_server import Server, started

Start = Callable[[Settings], AbstractContextManager[Server]]
COUNT = "nomemory_call_duration_seconds_count"


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with HTTP."""
    with started(settings_of(tmp_path_factory.mktemp("counted"))) as server:
        yield server


def test_calls_are_counted_by_method_transport_and_code(counted: Server, user: str) -> None:
    before = scraped(counted.http)
    for _ in range(3):
        counted.query.ListMessages(q.ListMessagesRequest(user_id=user))
    with pytest.raises(grpc.RpcError):
        counted.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=-1))
    for _ in range(2):
        assert HTTP.get(f"{counted.http}/v1/users/{user}/messages").status_code == 200
    assert HTTP.get(f"{counted.http}/v1/users/{user}/messages?page_size=-1").status_code == 400
    after = scraped(counted.http)

    def more(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert more(COUNT, method="ListMessages", transport="grpc", code="OK") == 3
    assert more(COUNT, method="ListMessages", transport="grpc", code="INVALID_ARGUMENT") == 1
    assert more(COUNT, method="ListMessages", transport="http", code="OK") == 2
    assert more(COUNT, method="ListMessages", transport="http", code="INVALID_ARGUMENT") == 1
    errors = {"method": "ListMessages", "reason": "INVALID_FIELD"}
    assert more("nomemory_call_errors_total", transport="grpc", **errors) == 1
    assert more("nomemory_call_errors_total", transport="http", **errors) == 1
    bucket = {"method": "ListMessages", "transport": "grpc", "code": "OK", "le": "+Inf"}
    assert more("nomemory_call_duration_seconds_bucket", **bucket) == 3


def test_rejected_http_requests_are_counted_by_reason(counted: Server) -> None:
    before = scraped(counted.http)
    assert HTTP.get(f"{counted.http}/nothing/here").status_code == 404
    assert HTTP.get(f"{counted.http}/v1/index_status", headers={"origin": "https://evil.example"}).status_code == 403
    after = scraped(counted.http)
    for reason in ("PATH_NOT_FOUND", "ORIGIN_NOT_ALLOWED"):
        name = "nomemory_http_requests_rejected_total"
        assert after.value(name, reason=reason) - before.value(name, reason=reason) == 1


def test_writes_recalls_and_log_size_are_exported(counted: Server, user: str) -> None:
    before = scraped(counted.http)
    messages = [new_message(user, f"m{n}", "We meet at the station on Friday.", ts=n + 1) for n in range(4)]
    counted.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
    counted.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages[:1]))
    counted.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=["m3"]))
    with grpc.insecure_channel(counted.target) as channel:
        RecallServiceStub(channel).Recall(
            r.RecallRequest(question="Where do we meet?"), metadata=(("x-user-id", user),), timeout=30
        )
    after = scraped(counted.http)

    def more(name: str, **labels: str) -> float:
        return after.sum(name, **labels) - before.sum(name, **labels)

    assert more("nomemory_messages_written_total", outcome="created") == 4
    assert more("nomemory_messages_written_total", outcome="unchanged") == 1
    assert more("nomemory_messages_deleted_total", by="ids") == 1
    assert more("nomemory_log_messages") == 3
    assert more("nomemory_recalls_total") == 1
    assert more("nomemory_recall_iterations_count") == 1
    assert after.value("nomemory_log_readable") == 1


def test_every_metric_of_the_catalog_is_exported_with_its_labels(counted: Server, user: str) -> None:
    counted.query.ListMessages(q.ListMessagesRequest(user_id=user))
    scrape = scraped(counted.http)
    for family in CATALOG:
        assert f"# TYPE {family.name} {family.kind}\n" in scrape.text
        assert "\n" not in family.meaning
        assert family.name.endswith("_total") is (family.kind is MetricType.COUNTER)
    for name, labels in scrape.samples:
        of = next(BY_NAME[base_name] for base_name in (name, *_bases(name)) if base_name in BY_NAME)
        assert {label for label, _ in labels} - {"le"} == set(of.labels)


def _bases(name: str) -> list[str]:
    return [name.removesuffix(ending) for ending in ("_bucket", "_sum", "_count")]


def test_memory_of_each_process_is_exported(counted: Server) -> None:
    scrape = scraped(counted.http)
    for process in ("server", "lexical-indexer", "vector-engine"):
        assert scrape.value("nomemory_process_memory_bytes", process=process) > 1_000_000
        assert scrape.value("nomemory_process_cpu_seconds_total", process=process) > 0


def test_index_lag_is_zero_after_catching_up(counted: Server, user: str) -> None:
    messages = [new_message(user, f"m{n}", "A few words.", ts=n + 1) for n in range(200)]
    counted.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
    give_up = time.monotonic() + 30
    while True:
        scrape = scraped(counted.http)
        behind = [
            scrape.value(name, index=index)
            for name in ("nomemory_index_pending_messages", "nomemory_index_lag_seconds")
            for index in ("words", "meaning")
        ]
        if not any(behind):
            break
        assert time.monotonic() < give_up, scrape.text
    assert scrape.value("nomemory_index_failing", index="lexical") == 0


def test_metrics_contain_no_request_data(counted: Server) -> None:
    user, word, key = "canary-user", "canarycontent", "canary-key-0123456789"
    metadata = (("x-request-id", "canary-request"),)
    message = new_message(user, "canary-message", word, ts=1, conversation_id="canary-conversation", name="canary-name")
    counted.ingest.WriteMessages(i.WriteMessagesRequest(messages=[message]), metadata=metadata)
    counted.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text=word))
    with pytest.raises(grpc.RpcError, match="no credentials configured"):
        counted.query.ListMessages(
            q.ListMessagesRequest(user_id=user), metadata=(("authorization", f"Bearer {key}"), *metadata)
        )
    with grpc.insecure_channel(counted.target) as channel:
        for skill in ("", "canary-skill"):
            recall = RecallServiceStub(channel).Recall.future(
                r.RecallRequest(question=f"What about {word}?", skill=skill),
                metadata=(("x-user-id", user), *metadata),
                timeout=30,
            )
            recall.exception()
        unknown: grpc.UnaryUnaryMultiCallable[bytes, bytes]
        unknown = channel.unary_unary("/nomemory.v1.QueryService/CanaryMethod")
        with pytest.raises(grpc.RpcError):
            unknown(b"", metadata=metadata)
    for path in (f"/v1/users/{user}/messages", "/canary-path", "/v1/users/x/messages?canary=1", "/metrics?canary=1"):
        HTTP.request("GET", f"{counted.http}{path}", headers={"user-agent": "canary-agent", "origin": "http://canary"})
        HTTP.get(f"{counted.http}{path}", headers={"x-request-id": "canary-request"})
    text = scraped(counted.http).text
    assert "canary" not in text
    assert 'method="Recall"' in text


def test_post_request_is_rejected(counted: Server) -> None:
    assert HTTP.post(f"{counted.http}/metrics").status_code == 405


def test_client_that_does_not_read_its_response_blocks_no_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = settings_of(tmp_path_factory.mktemp("unread"), default_deadline_s=2.0)
    with started(settings) as server:
        ahead = request("GET /metrics").replace(b"connection: close\r\n", b"") * 10
        peers = [connected(server.http) for _ in range(5)]
        for peer in peers:
            peer.sendall(ahead)
        began = time.monotonic()
        assert scraped(server.http).value("nomemory_log_readable") == 1
        server.query.ListMessages(q.ListMessagesRequest(user_id="u"), timeout=20)
        assert time.monotonic() - began < 20
        for peer in peers:
            with closing(peer):
                assert b" 200 " in peer.recv(65_536)


def test_separate_metrics_port_serves_only_metrics(own_settings: Settings, start: Start, user: str) -> None:
    with start(own_settings.copy_with_changes(metrics_listen="127.0.0.1:0")) as server:
        assert server.http == ""
        server.query.ListMessages(q.ListMessagesRequest(user_id=user))
        assert scraped(server.metrics).value(COUNT, method="ListMessages", transport="grpc", code="OK") == 1
        for path in ("/", "/v1/index_status", "/healthz", "/openapi.json", "/metrics/"):
            assert HTTP.get(f"{server.metrics}{path}").status_code == 404
        assert HTTP.post(f"{server.metrics}/metrics").status_code == 405
        answered = HTTP.get(f"{server.metrics}/metrics", headers={"host": "evil.example"})
        assert answered.status_code == 403
        assert all_read(_sent(server.metrics, b"\x00\x01 nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


def _sent(http: str, sent: bytes) -> socket.socket:
    peer = connected(http)
    peer.sendall(sent)
    return peer
