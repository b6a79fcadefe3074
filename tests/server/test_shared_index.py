"""Tests for two servers that share a database and Qdrant."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from postgres import PrivatePostgres, fresh_schema
from server.fleet import fleet, until

from chat_messages import new_message
from nomemory.server.indexing.vector import indexer
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from proofs.fake_qdrant import FakeQdrant, run_fake_qdrant

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

EAST, NORTH = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


def nearest_ids(query: QueryServiceStub, user: str, vector: list[float], at_least: str) -> list[str]:
    near = q.SemanticSearchRequest(
        user_id=user, query_embedding=q.Embedding(values=vector), at_least=at_least, min_score=0.9
    )
    return sorted(item.message.message_id for item in query.SemanticSearch(near, timeout=60).items)


@dataclass
class ServerPair:
    """Two servers and their shared Qdrant."""

    first: Server
    second: Server
    qdrant: FakeQdrant

    def search_ids(self, server: Server, user: str, vector: list[float], at_least: str) -> list[str]:
        return nearest_ids(server.query, user, vector, at_least)

    def points(self) -> int:
        return sum(
            self.qdrant.points.count(collection.name).count
            for collection in self.qdrant.points.get_collections().collections
        )


@pytest.fixture
def two(own_settings: Settings, postgres: PrivatePostgres, start: Start, tmp_path: Path) -> Iterator[ServerPair]:
    with ExitStack() as stack:
        qdrant = stack.enter_context(run_fake_qdrant())
        ours = own_settings.copy_with_changes(
            database_url=fresh_schema(postgres),
            qdrant_url=qdrant.url,
            qdrant_shard_keys=4,
            indexer_lock_lease_s=2.0,
            erase_within_s=4.0,
        )
        theirs = ours.copy_with_changes(data=tmp_path / "other")
        theirs.server.data.mkdir()
        first = stack.enter_context(start(ours))
        shutil.copy(ours.server.data / "server.key", theirs.server.data)
        yield ServerPair(first, stack.enter_context(start(theirs)), qdrant)


def test_message_written_to_one_server_is_found_semantically_by_the_other(two: ServerPair) -> None:
    users = [f"user-{number}" for number in range(12)]
    for number, user in enumerate(users):
        writer, reader = (two.first, two.second) if number % 2 else (two.second, two.first)
        batch = i.WriteMessagesRequest(
            messages=[
                new_message(user, "e", "east", ts=1, embedding=EAST),
                new_message(user, "n", "north", ts=2, embedding=NORTH),
            ]
        )
        token = writer.ingest.WriteMessages(batch).write_token
        assert two.search_ids(reader, user, EAST, token) == ["e"]
        assert two.search_ids(writer, user, NORTH, token) == ["n"]
        status = reader.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id=user))
        assert (status.vector.pending, status.vector.dead_letters) == (0, 0)
    assert two.points() == 2 * len(users)
    token = two.first.ingest.EraseUser(i.EraseUserRequest(user_id=users[0])).write_token
    assert two.search_ids(two.second, users[0], EAST, token) == []
    assert until(lambda: two.points() == 2 * len(users) - 2)
    overall = two.second.ingest.GetIndexStatus(i.GetIndexStatusRequest())
    assert overall.vector.checkpoint == overall.log.sequence


@pytest.mark.timeout(240)
def test_backlog_of_a_killed_server_is_indexed_by_another(
    own_settings: Settings, postgres: PrivatePostgres, start: Start, tmp_path: Path
) -> None:
    with run_fake_qdrant() as qdrant:
        url = fresh_schema(postgres)
        shared = {"NOMEMORY_DATABASE_URL": url, "NOMEMORY_QDRANT_URL": qdrant.url}
        theirs = own_settings.copy_with_changes(database_url=url, qdrant_url=qdrant.url, indexer_lock_lease_s=2.0)
        with fleet(tmp_path / "one", NOMEMORY_INDEXER_LOCK_LEASE_S="2", **shared) as first, start(theirs) as other:
            ingest = IngestServiceStub(first.channel())
            users = [f"user-{number}" for number in range(20)]
            for user in users:
                batch = [new_message(user, f"m{n}", "east", ts=n, embedding=EAST) for n in range(20)]
                ingest.WriteMessages(i.WriteMessagesRequest(messages=batch), timeout=60)
            first.process.kill()
            for user in users:
                assert until(partial(_has_all, other.query, user, 20), 60)


def _has_all(query: QueryServiceStub, user: str, messages: int) -> bool:
    return len(nearest_ids(query, user, EAST, "")) == messages


def test_waiting_for_a_write_of_another_server_does_not_wait_for_the_next_poll(
    own_settings: Settings, postgres: PrivatePostgres, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "_POLL_S", 600.0)
    settings = own_settings.copy_with_changes(database_url=fresh_schema(postgres), key_file=tmp_path / "key")
    (tmp_path / "key").write_bytes(bytes(32))
    with start(settings) as first, start(settings.copy_with_changes(data=tmp_path / "other")) as other:
        for n in range(3):
            batch = i.WriteMessagesRequest(messages=[new_message("u", f"m{n}", "east", ts=n, embedding=EAST)])
            token = first.ingest.WriteMessages(batch).write_token
            assert len(nearest_ids(other.query, "u", EAST, token)) == n + 1
