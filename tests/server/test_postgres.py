"""Tests that a server with a PostgreSQL log loses no acknowledged write and reports outages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from postgres import NOT_INSTALLED, PrivatePostgres, count, find_program_directory, fresh_schema, private_postgres

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import Server, address_in

VECTOR = (1.0, 0.0, 0.0, 0.0)
ROUNDS = 2
_PATIENCE_S = 100.0
"""Longer than a busy machine takes to start a process."""
_DURABLE = ("shared_buffers=32MB",)
"""As in production: what is acknowledged is on the disk."""


class Process:
    """A server in a separate process."""

    def __init__(self, data: Path, url: str) -> None:
        environment = {
            **os.environ,
            "NOMEMORY_DATA": str(data),
            "NOMEMORY_DATABASE_URL": url,
            "NOMEMORY_LISTEN": "127.0.0.1:0",
            "NOMEMORY_EMBEDDER": "none",
            "NOMEMORY_EMBEDDING_DIMENSION": "4",
        }
        command = [str(Path(sys.executable).with_name("nomemory")), "serve"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        try:
            self.channel = grpc.insecure_channel(address_in(self.process.stdout.readline()))
        except AssertionError:
            self.process.kill()
            raise
        self.query = query_service_pb2_grpc.QueryServiceStub(self.channel)
        self.ingest = ingest_service_pb2_grpc.IngestServiceStub(self.channel)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


@dataclass
class Ledger:
    """The acknowledged messages by id, and the unanswered batches, which are sent again."""

    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    unanswered: str = ""
    number: int = 0

    def write_until(self, server: Process, stop: threading.Event) -> None:
        """Write batches without ids, repeating each with its request id until it is acknowledged."""
        while not stop.is_set():
            self.unanswered = self.unanswered or f"r{self.number}"
            messages = [new_message("u", "", f"{self.unanswered}-{k} word", ts=7, embedding=VECTOR) for k in range(5)]
            request = i.WriteMessagesRequest(messages=messages, request_id=self.unanswered)
            try:
                reply = server.ingest.WriteMessages(request, timeout=20)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or server.process.poll() is not None:
                    return
                time.sleep(0.05)
                continue
            self.acknowledged[self.unanswered] = [result.message_id for result in reply.results]
            self.unanswered = ""
            self.number += 1

    def wait_for_more(self) -> None:
        """Wait until a number of further batches are acknowledged."""
        number = self.number + 5
        _wait_until(lambda: self.number >= number)


def _listed(server: Server) -> list[str]:
    message_ids, cursor = list[str](), ""
    while True:
        page = server.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=500, cursor=cursor))
        message_ids += [message.content for message in page.items]
        if not (cursor := page.next_cursor):
            return message_ids


@pytest.mark.timeout(240)
def test_acknowledged_writes_survive_kills_of_server_and_database_without_duplicates(
    own_settings: Settings, start: Callable[[Settings], AbstractContextManager[Server]], tmp_path: Path
) -> None:
    if find_program_directory() is None:
        pytest.skip(NOT_INSTALLED)
    ledger = Ledger()
    with private_postgres(_DURABLE) as database:
        url = fresh_schema(database)
        for turn in range(ROUNDS):
            server, stop = Process(tmp_path / "data", url), threading.Event()
            writer = threading.Thread(target=ledger.write_until, args=(server, stop))
            writer.start()
            ledger.wait_for_more()
            if turn % 2:
                database.stop()
                database.start(_DURABLE)
                ledger.wait_for_more()  # the same server continues
                stop.set()
            server.kill()
            writer.join(30)
            server.channel.close()

        with start(own_settings.copy_with_changes(data=tmp_path / "data", database_url=url)) as last:
            contents = Counter(_listed(last))
            expected = {f"{request}-{k} word" for request in ledger.acknowledged for k in range(5)}
            assert expected <= contents.keys()
            assert set(contents.values()) == {1}
            assert contents.keys() - expected <= {f"{ledger.unanswered}-{k} word" for k in range(5)}
            for request, ids in ledger.acknowledged.items():
                response = last.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id="u", message_ids=ids))
                assert [item.content for item in response.items] == [f"{request}-{k} word" for k in range(5)]
            token = last.ingest.WriteMessages(
                i.WriteMessagesRequest(messages=[new_message("u", "last", "word", ts=9)])
            ).write_token
            searched = q.LexicalSearchRequest(user_id="u", query_text="word", page_size=500, at_least=token)
            assert len(last.query.LexicalSearch(searched, timeout=_PATIENCE_S).items) == min(500, len(contents) + 1)


@pytest.mark.timeout(240)
def test_calls_are_unavailable_only_while_the_database_is_down(
    own_settings: Settings, start: Callable[[Settings], AbstractContextManager[Server]]
) -> None:
    if find_program_directory() is None:
        pytest.skip(NOT_INSTALLED)
    with (
        private_postgres() as database,
        start(own_settings.copy_with_changes(database_url=fresh_schema(database))) as server,
    ):
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message("u", "m", "word")]))
        database.stop()
        with pytest.raises(grpc.RpcError) as reading:
            server.query.ListMessages(q.ListMessagesRequest(user_id="u"))
        with pytest.raises(grpc.RpcError) as writing:
            server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message("u", "n", "word")]))
        for refused in map(refusal, (reading.value, writing.value)):
            assert refused.code is grpc.StatusCode.UNAVAILABLE
            assert refused.reason == "STORAGE_UNAVAILABLE"
        _wait_until(lambda: _health(server) == health_pb2.HealthCheckResponse.NOT_SERVING)
        database.start()
        _wait_until(lambda: _health(server) == health_pb2.HealthCheckResponse.SERVING)
        written = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message("u", "o", "word")]))
        response = server.query.LexicalSearch(
            q.LexicalSearchRequest(user_id="u", query_text="word", at_least=written.write_token), timeout=30
        )
        assert {"m", "o"} <= {item.message_id for item in response.items}


@pytest.mark.timeout(240)
def test_two_servers_of_one_database_return_equal_results_and_hide_its_url_in_command_lines(
    own_settings: Settings,
    postgres: PrivatePostgres,
    start: Callable[[Settings], AbstractContextManager[Server]],
    tmp_path: Path,
) -> None:
    url = fresh_schema(postgres)
    key_file = tmp_path / "key"
    key_file.write_bytes(os.urandom(32))  # both can decrypt the tokens of the other
    ours = own_settings.copy_with_changes(database_url=url, erase_within_s=2.0, key_file=key_file)
    theirs = ours.copy_with_changes(data=tmp_path / "other")
    with start(ours) as our_server, start(theirs) as other:
        batch = i.WriteMessagesRequest(
            messages=[new_message("u", "", f"word {n}", ts=n, embedding=VECTOR) for n in range(6)], request_id="r"
        )
        written, again = our_server.ingest.WriteMessages(batch), other.ingest.WriteMessages(batch)
        assert [r.message_id for r in again.results] == [r.message_id for r in written.results]
        first = our_server.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=4))
        rest = other.query.ListMessages(q.ListMessagesRequest(user_id="u", cursor=first.next_cursor))
        assert [m.content for m in (*first.items, *rest.items)] == [f"word {n}" for n in reversed(range(6))]
        assert _count_hits(other, written.write_token) == _count_hits(our_server, written.write_token) == 6
        shown = subprocess.run(["ps", "-ww", "-eo", "args"], check=True, capture_output=True, text=True).stdout  # noqa: S607
        assert url not in shown  # although all workers run: it may hold a password
        ids = [result.message_id for result in written.results[:2]]
        deleted = other.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="u", message_ids=ids))
        assert _count_hits(our_server, deleted.write_token) == 4
        _wait_until(lambda: count(postgres, url, "removals") == 0)  # both servers have erased the messages
        erased = our_server.ingest.EraseUser(i.EraseUserRequest(user_id="u"))
        assert other.query.ListMessages(q.ListMessagesRequest(user_id="u")).items == []
        (log,) = (residue for residue in erased.residues if residue.location == i.STORAGE_LOCATION_MESSAGE_LOG)
        assert not log.HasField("purge_ts")  # this server does not control the files of the database
        _wait_until(lambda: count(postgres, url, "users") == 0)


def _count_hits(server: Server, token: str) -> int:
    """Return the number of lexical hits after checking that there are as many semantic ones."""
    words = q.LexicalSearchRequest(user_id="u", query_text="word", at_least=token)
    meaning = q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=VECTOR), at_least=token)
    hit_count = len(server.query.LexicalSearch(words, timeout=_PATIENCE_S).items)
    assert len(server.query.SemanticSearch(meaning, timeout=_PATIENCE_S).items) == hit_count
    return hit_count


def _health(server: Server) -> int:
    with grpc.insecure_channel(server.target) as channel:
        return int(health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status)


def _wait_until(holds: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
    until = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)
