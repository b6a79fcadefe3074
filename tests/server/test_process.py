"""Tests for the server process: logs and shutdown."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from server.fleet import command, environment

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from nomemory.v1 import query_service_pb2 as q
from running_server import address_in, settings_without_embedder, started

CONTENT, QUERY, METADATA, USER = "canary-content", "canary-query", "canary-metadata", "canary-user"


@contextmanager
def process(data: Path, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    server = subprocess.Popen(
        command(), env=environment(data, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        yield server, address_in(server.stdout.readline())
    finally:
        server.kill()
        server.wait()


def finish(server: subprocess.Popen[str]) -> str:
    server.send_signal(signal.SIGTERM)
    _, errors = server.communicate(timeout=30)
    assert server.returncode == 0
    return errors


@dataclass(frozen=True)
class Stopped:
    """What a server that was stopped by SIGTERM during writes left behind: its data, its logs, the acknowledged ids."""

    settings: Settings
    logs: str
    acknowledged: list[str]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    settings = settings_without_embedder(tmp_path_factory.mktemp("stopped") / "data")
    acknowledged = list[str]()
    with process(settings.server.data) as (server, target), grpc.insecure_channel(target) as channel:
        ingest = ingest_service_pb2_grpc.IngestServiceStub(channel)
        call_with_secret_content(ingest, query_service_pb2_grpc.QueryServiceStub(channel))
        running = threading.Event()

        def write() -> None:
            for n in range(100_000):
                try:
                    ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message("u", f"m{n:06}", "x", ts=n)]))
                except grpc.RpcError as error:
                    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)  # noqa: PT017
                    return
                acknowledged.append(f"m{n:06}")
                running.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert running.wait(20)
        logs = finish(server)
        writer.join(20)
    return Stopped(settings, logs, acknowledged)


def call_with_secret_content(
    ingest: ingest_service_pb2_grpc.IngestServiceStub, query: query_service_pb2_grpc.QueryServiceStub
) -> None:
    """Write a message, search for it, and send invalid searches."""
    message = new_message(USER, "m", CONTENT, metadata={METADATA: METADATA}, embedding=[1, 0, 0, 0])
    token = ingest.WriteMessages(i.WriteMessagesRequest(messages=[message])).write_token
    query.LexicalSearch(q.LexicalSearchRequest(user_id=USER, query_text=QUERY, at_least=token))
    for bad in (
        q.LexicalSearchRequest(user_id=USER, query_text=QUERY * 5000),
        q.LexicalSearchRequest(user_id=USER, query_text=QUERY, cursor=f"c_{QUERY}"),
    ):
        with pytest.raises(grpc.RpcError):
            query.LexicalSearch(bad)
    with pytest.raises(grpc.RpcError):
        query.SemanticSearch(q.SemanticSearchRequest(user_id=USER, query_text=QUERY))


def test_logs_are_json_and_contain_no_message_content(stopped: Stopped) -> None:
    lines = [json.loads(line) for line in stopped.logs.splitlines()]
    methods = [line["method"] for line in lines if line["event"] == "rpc"]
    assert methods[:5] == ["WriteMessages", "LexicalSearch", "LexicalSearch", "LexicalSearch", "SemanticSearch"]
    assert set(methods[5:]) == {"WriteMessages"}
    assert not [word for word in (CONTENT, QUERY, METADATA) if word in stopped.logs]
    assert not [line for line in lines if line["event"] != "audit" and USER in json.dumps(line)]
    assert (stopped.settings.server.data / "server.key").read_bytes().hex() not in stopped.logs


def test_sigterm_completes_calls_in_flight_and_loses_no_write(stopped: Stopped) -> None:
    with started(stopped.settings) as restarted:
        kept = ids(restarted.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=500)).items)
        assert kept[0] in (stopped.acknowledged[-1], f"m{len(stopped.acknowledged):06}")
