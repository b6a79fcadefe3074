"""Tests that acknowledged writes survive `kill -9` in the log and in both indexes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from server.fleet import command, until

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from nomemory.v1 import query_service_pb2 as q
from running_server import Server, address_in, settings_without_embedder, started

VECTOR = (1.0, 0.0, 0.0, 0.0)
ROUNDS = 3


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


@dataclass
class Acknowledged:
    """The acknowledged writes: the ids that the client chose, and by request id those that the server generated."""

    ids: list[str] = field(default_factory=list)
    generated: dict[str, list[str]] = field(default_factory=dict)

    def write_ids_until_killed(self, server: Process, first: int) -> None:
        n = first
        while True:
            batch = [f"m{n + k:06}" for k in range(20)]
            messages = [new_message("u", item, f"word {item}", ts=n, embedding=VECTOR) for item in batch]
            try:
                server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
            except grpc.RpcError:
                return
            self.ids += batch
            n += 20

    def write_requests_until_killed(self, server: Process, first: int) -> None:
        """Write batches without ids and with equal times."""
        n = first
        while True:
            try:
                reply = server.ingest.WriteMessages(nameless(f"r{n}"))
            except grpc.RpcError:
                return
            self.generated[f"r{n}"] = [result.message_id for result in reply.results]
            n += 1


def nameless(request_id: str) -> i.WriteMessagesRequest:
    messages = [new_message("v", "", f"{request_id} {k}", ts=7) for k in range(3)]
    return i.WriteMessagesRequest(messages=messages, request_id=request_id)


@pytest.fixture(scope="module")
def acknowledged() -> Acknowledged:
    return Acknowledged()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, acknowledged: Acknowledged) -> Iterator[Server]:
    """A server whose data directory is that of servers killed while they wrote."""
    data = tmp_path_factory.mktemp("killed") / "data"
    for turn in range(ROUNDS):
        server = Process(data)
        first = (turn + 1) * 100_000
        ids, requests = len(acknowledged.ids), len(acknowledged.generated)
        writers = [
            threading.Thread(target=write, args=(server, first))
            for write in (acknowledged.write_ids_until_killed, acknowledged.write_requests_until_killed)
        ]
        for writer in writers:
            writer.start()
        assert until(lambda: len(acknowledged.ids) > ids and len(acknowledged.generated) >= requests + 5)  # noqa: B023 - evaluated in this round
        time.sleep(0.15 * (turn + 1))  # during writes, commits and merges
        server.process.kill()
        for writer in writers:
            writer.join(30)
        server.kill()
    settings = settings_without_embedder(data)
    with started(settings) as restarted:
        yield restarted


def listed(server: Server, user: str) -> list[str]:
    message_ids: list[str] = []
    cursor = ""
    while True:
        page = server.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=500, cursor=cursor))
        message_ids += [message.message_id for message in page.items]
        if not (cursor := page.next_cursor):
            return message_ids


def searched(server: Server, token: str) -> list[str]:
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
def test_acknowledged_writes_survive_sigkill(server: Server, acknowledged: Acknowledged) -> None:
    token = server.ingest.WriteMessages(
        i.WriteMessagesRequest(messages=[new_message("u", "last", "word", ts=0, embedding=VECTOR)])
    ).write_token
    in_log = listed(server, "u")
    assert set(acknowledged.ids) <= set(in_log)
    assert len(in_log) == len(set(in_log))
    assert sorted(searched(server, token)) == sorted(in_log)
    near = server.query.SemanticSearch(
        q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=VECTOR), top_k=200, at_least=token),
        timeout=60,
    )
    assert [item.message.message_id for item in near.items] == in_log[:200]
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id="u"))
    assert (status.log.messages, status.vector.pending, status.lexical.pending) == (len(in_log), 0, 0)


@pytest.mark.timeout(180)
def test_generated_ids_and_request_ids_survive_sigkill(server: Server, acknowledged: Acknowledged) -> None:
    for request_id, ids in acknowledged.generated.items():
        again = server.ingest.WriteMessages(nameless(request_id))
        assert [result.message_id for result in again.results] == ids
        assert {result.outcome for result in again.results} == {i.WRITE_OUTCOME_UNCHANGED}
    generated = [message_id for ids in acknowledged.generated.values() for message_id in ids]
    in_log = list(reversed(listed(server, "v")))
    assert [message_id for message_id in in_log if message_id in set(generated)] == generated
    assert len(in_log) - len(generated) <= 3 * ROUNDS  # stored before the server was killed, but not acknowledged
