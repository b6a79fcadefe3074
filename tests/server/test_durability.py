"""Tests that acknowledged writes survive `kill -9` in the log and in both indexes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import grpc
import pytest
from server.fleet import command

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from nomemory.v1 import query_service_pb2 as q
from running_server import address_in

VECTOR = (1.0, 0.0, 0.0, 0.0)
ROUNDS = 4


class Process:
    """A server in a separate process."""

    def __init__(self, data: Path) -> None:
        environment = {
            **os.environ,
            "NOMEMORY_DATA": str(data),
            "NOMEMORY_LISTEN": "127.0.0.1:0",
            "NOMEMORY_EMBEDDER": "none",
            "NOMEMORY_EMBEDDING_DIMENSION": "4",
        }
        self.process = subprocess.Popen(
            command(),
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.channel = grpc.insecure_channel(address_in(self.process.stdout.readline()))  # type: ignore[union-attr]
        except AssertionError:
            self.process.kill()
            raise
        self.query = query_service_pb2_grpc.QueryServiceStub(self.channel)
        self.ingest = ingest_service_pb2_grpc.IngestServiceStub(self.channel)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self.channel.close()


def write_until_killed(server: Process, first: int, acknowledged: list[str], started: threading.Event) -> None:
    n = first
    while True:
        batch = [f"m{n + k:06}" for k in range(20)]
        messages = [new_message("u", item, f"word {item}", ts=n, embedding=VECTOR) for item in batch]
        try:
            server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
        except grpc.RpcError:
            return
        acknowledged += batch
        started.set()
        n += 20


def listed(server: Process) -> list[str]:
    message_ids: list[str] = []
    cursor = ""
    while True:
        page = server.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=500, cursor=cursor))
        message_ids += [message.message_id for message in page.items]
        if not (cursor := page.next_cursor):
            return message_ids


def searched(server: Process, token: str) -> list[str]:
    message_ids: list[str] = []
    cursor = ""
    while True:
        page = server.query.LexicalSearch(
            q.LexicalSearchRequest(user_id="u", query_text="word", page_size=500, cursor=cursor, at_least=token),
            timeout=60,
        )
        message_ids += [message.message_id for message in page.items]
        if not (cursor := page.next_cursor):
            return message_ids


@pytest.mark.timeout(180)
def test_acknowledged_writes_survive_sigkill(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for turn in range(ROUNDS):
        server = Process(tmp_path / "data")
        started = threading.Event()
        first = (turn + 1) * 100_000
        writer = threading.Thread(target=write_until_killed, args=(server, first, acknowledged, started))
        writer.start()
        assert started.wait(30)
        time.sleep(0.15 * (turn + 1))  # during writes, commits and merges
        server.kill()
        writer.join(30)

    server = Process(tmp_path / "data")
    try:
        token = server.ingest.WriteMessages(
            i.WriteMessagesRequest(messages=[new_message("u", "last", "word", ts=0, embedding=VECTOR)])
        ).write_token
        in_log = listed(server)
        assert set(acknowledged) <= set(in_log)
        assert len(in_log) == len(set(in_log))
        assert sorted(searched(server, token)) == sorted(in_log)
        near = server.query.SemanticSearch(
            q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=VECTOR), top_k=200, at_least=token),
            timeout=60,
        )
        assert [item.message.message_id for item in near.items] == in_log[:200]
        status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id="u"))
        assert (status.log.messages, status.vector.pending, status.lexical.pending) == (len(in_log), 0, 0)
    finally:
        server.kill()


def write_requests_until_killed(server: Process, first: int, sent: dict[str, list[str]]) -> None:
    """Write batches without ids and with equal times; record the ids of acknowledged batches."""
    n = first
    while True:
        try:
            reply = server.ingest.WriteMessages(nameless(f"r{n}"))
        except grpc.RpcError:
            return
        sent[f"r{n}"] = [result.message_id for result in reply.results]
        n += 1


def nameless(request_id: str) -> i.WriteMessagesRequest:
    messages = [new_message("u", "", f"{request_id} {k}", ts=7) for k in range(3)]
    return i.WriteMessagesRequest(messages=messages, request_id=request_id)


@pytest.mark.timeout(180)
def test_generated_ids_and_request_ids_survive_sigkill(tmp_path: Path) -> None:
    sent: dict[str, list[str]] = {}
    for turn in range(ROUNDS):
        server = Process(tmp_path / "data")
        before = len(sent)
        writer = threading.Thread(target=write_requests_until_killed, args=(server, (turn + 1) * 100_000, sent))
        writer.start()
        while len(sent) < before + 5:
            time.sleep(0.01)
        server.kill()
        writer.join(30)

    server = Process(tmp_path / "data")
    try:
        for request_id, ids in sent.items():
            again = server.ingest.WriteMessages(nameless(request_id))
            assert [result.message_id for result in again.results] == ids
            assert {result.outcome for result in again.results} == {i.WRITE_OUTCOME_UNCHANGED}
        acknowledged = [message_id for ids in sent.values() for message_id in ids]
        in_log = list(reversed(listed(server)))
        assert [message_id for message_id in in_log if message_id in set(acknowledged)] == acknowledged
        assert (
            len(in_log) - len(acknowledged) <= 3 * ROUNDS
        )  # stored before the server was killed, but not acknowledged
    finally:
        server.kill()
