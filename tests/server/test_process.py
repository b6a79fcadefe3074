"""Tests for the server process: logs and shutdown."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import grpc
import pytest
from server.fleet import command, environment

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from nomemory.v1 import query_service_pb2 as q
from running_server import Server, address_in

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


def test_logs_are_json_and_contain_no_message_content(tmp_path: Path) -> None:
    with process(tmp_path) as (server, target):
        with grpc.insecure_channel(target) as channel:
            ingest = ingest_service_pb2_grpc.IngestServiceStub(channel)
            query = query_service_pb2_grpc.QueryServiceStub(channel)
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
        logs = finish(server)
    lines = [json.loads(line) for line in logs.splitlines()]
    assert [line["method"] for line in lines if line["event"] == "rpc"] == [
        "WriteMessages", "LexicalSearch", "LexicalSearch", "LexicalSearch", "SemanticSearch",
    ]  # fmt: skip
    assert not [word for word in (CONTENT, QUERY, METADATA) if word in logs]
    assert not [line for line in lines if line["event"] != "audit" and USER in json.dumps(line)]
    assert (tmp_path / "server.key").read_bytes().hex() not in logs


def test_sigterm_completes_calls_in_flight_and_loses_no_write(
    own_settings: Settings, start: Callable[[Settings], AbstractContextManager[Server]]
) -> None:
    with process(own_settings.server.data) as (server, target):
        outcomes: list[str] = []
        with grpc.insecure_channel(target) as channel:
            ingest = ingest_service_pb2_grpc.IngestServiceStub(channel)
            running = threading.Event()

            def write() -> None:
                for n in range(100_000):
                    try:
                        ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message("u", f"m{n:06}", "x", ts=n)]))
                    except grpc.RpcError as error:
                        assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)  # noqa: PT017
                        return
                    outcomes.append(f"m{n:06}")
                    running.set()

            writer = threading.Thread(target=write)
            writer.start()
            assert running.wait(20)
            finish(server)
            writer.join(20)
    with start(own_settings) as restarted:
        kept = ids(restarted.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=500)).items)
        assert kept[0] in (outcomes[-1], f"m{len(outcomes):06}")
