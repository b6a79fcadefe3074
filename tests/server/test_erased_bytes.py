"""Tests that erased content is removed from every file of a running server, and that its space is freed."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from file_search import find_in_files
from server.test_durability import Process

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], AbstractContextManager["Server"]]

MESSAGES = 60
PATIENCE_S = 60.0
EXPIRES_IN_S = 4.0
LENGTHS = (1, 3, 40, 300)
"""How often a message says its words: some are longer than a page of the log."""


def vector_of(user: str, n: int) -> tuple[float, ...]:
    """Return a distinct unit vector for each message."""
    numbers = np.random.default_rng(zlib.crc32(f"{user} {n}".encode())).standard_normal(4)
    return tuple(float(number) for number in (numbers / np.linalg.norm(numbers)).astype("<f4"))


def planted(user: str, n: int) -> m.ChatMessage:
    return new_message(
        user,
        f"{user}-id-{n}",
        f"secret{user}word{n:04d} " * LENGTHS[n % len(LENGTHS)],
        ts=zlib.crc32(str(n).encode()) % 10_000,
        conversation_id=f"{user}-talk-{n % 5}",
        name=f"speaker{user}",
        metadata={"source": f"{user}-meta"},
        embedding=vector_of(user, n),
        retracts=[f"{user}-id-{n - 1}"],
    )


def traces(user: str, messages: int = MESSAGES) -> list[bytes]:
    """Return the byte strings that must be absent: the user id, words, and stored vectors."""
    return [user.encode(), f"secret{user}".encode(), *texts_and_vectors(user, messages)]


def texts_and_vectors(user: str, messages: int = MESSAGES) -> list[bytes]:
    vectors = [np.asarray(vector_of(user, n), dtype="<f4").tobytes() for n in range(messages)]
    return [f"secret{user}word".encode(), *vectors]


def size_of(data: Path) -> int:
    """Return the bytes on disk without the preallocation of the vector engine."""
    total = 0
    for folder, _, names in os.walk(data):
        for name in names:
            file = Path(folder, name)
            with suppress(FileNotFoundError):  # the file was merged meanwhile
                total += 0 if "vectors" in file.parts else file.stat().st_size
    return total


def wait_until_gone(data: Path, byte_strings: Sequence[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while left := find_in_files(data, byte_strings):
        assert time.monotonic() < deadline, left[0]
        time.sleep(0.5)


def write(server: Server | Process, messages: Sequence[m.ChatMessage], *, replace: bool = False) -> None:
    """Write in batches, and wait for the indexes."""
    for at in range(0, len(messages), 500):
        request = i.WriteMessagesRequest(messages=messages[at : at + 500], replace=replace, request_id=f"r{at}")
        token = server.ingest.WriteMessages(request).write_token
    user = messages[0].user_id
    server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text="x", at_least=token))
    server.query.SemanticSearch(
        q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=vector_of(user, 0)), at_least=token)
    )


def plant(server: Server | Process, user: str, messages: int = MESSAGES) -> None:
    write(server, [planted(user, n) for n in range(messages)])


def plant_to_expire(server: Server, user: str) -> None:
    messages = [planted(user, n) for n in range(MESSAGES)]
    for message in messages:
        message.expire_ts.FromNanoseconds(time.time_ns() + round(EXPIRES_IN_S * 1e9))
    write(server, messages)


def delete(server: Server, user: str, numbers: Sequence[int] = range(MESSAGES)) -> None:
    message_ids = [f"{user}-id-{n}" for n in numbers]
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=message_ids))


def assert_complete(server: Server | Process, user: str, numbers: Sequence[int]) -> None:
    """Check that every read returns all messages of a user once."""
    expected_ids = sorted(f"{user}-id-{n}" for n in numbers)
    query = server.query
    listed = ids(query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=500)).items)
    stored_ids = [
        ids(query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text=f"secret{user}word{n:04d}")).items)
        for n in numbers
    ]
    near = query.SemanticSearch(
        q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=vector_of(user, 0)), top_k=200)
    )
    assert sorted(listed) == expected_ids
    assert sorted(message_id for some in stored_ids for message_id in some) == expected_ids
    assert sorted(item.message.message_id for item in near.items) == expected_ids


@pytest.fixture
def erasing(own_settings: Settings) -> Settings:
    """Settings for a fast erasure in small steps."""
    return own_settings.copy_with_changes(
        erase_within_s=1.0,
        erase_batch_size=50,
        erase_max_pages=20,
        erase_max_vacuum_bytes=0,
        retention_sweep_interval_s=0.1,
        vector_flush_interval_s=0.5,
    )


@pytest.mark.timeout(180)
def test_erased_content_is_absent_from_all_files(start: Start, erasing: Settings) -> None:
    data = erasing.server.data
    ways = ("q7erased", "q7deleted", "q7filtered", "q7expired")
    with start(erasing) as server:
        for user in ("keeper", "replaced", *ways[:3]):
            plant(server, user)
        plant_to_expire(server, "q7expired")
        planted_traces = {trace for user in (*ways, "replaced") for trace in traces(user)}
        assert {trace for _, trace in find_in_files(data, list(planted_traces))} == planted_traces
        server.ingest.EraseUser(i.EraseUserRequest(user_id="q7erased"))
        delete(server, "q7deleted")
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="q7filtered", filter=m.Filter(role=m.ROLE_USER)))
        write(
            server,
            [new_message("replaced", f"replaced-id-{n}", "other words", ts=n) for n in range(MESSAGES)],
            replace=True,
        )
        gone = [*(trace for user in ways for trace in traces(user)), *texts_and_vectors("replaced")]
        wait_until_gone(data, gone)
        assert_complete(server, "keeper", range(MESSAGES))
        delete(server, "keeper", range(0, MESSAGES, 2))
        wait_until_gone(data, [f"secretkeeperword{n:04d}".encode() for n in range(0, MESSAGES, 2)])
        assert_complete(server, "keeper", range(1, MESSAGES, 2))
    assert not find_in_files(data, gone)
    with start(erasing) as server:
        assert_complete(server, "keeper", range(1, MESSAGES, 2))
        plant(server, "later")
        assert_complete(server, "later", range(MESSAGES))


@pytest.mark.timeout(180)
def test_space_of_deleted_messages_is_freed(start: Start, own_settings: Settings) -> None:
    soon = {"erase_within_s": 1.0, "vector_flush_interval_s": 0.5}
    many = [
        new_message("keeper", f"keeper-id-{n}", f"word{n} " * 100, ts=n, embedding=vector_of("keeper", n))
        for n in range(500)
    ]
    with start(own_settings.copy_with_changes(**soon, erase_max_vacuum_bytes=0)) as server:
        data = own_settings.server.data
        write(server, many)
        full_size = size_of(data)
        delete(server, "keeper", [n for n in range(500) if n % 4])
        deadline = time.monotonic() + PATIENCE_S
        while size_of(data) > 0.42 * full_size:  # a quarter is kept, which alone takes 0.28 of the space
            assert time.monotonic() < deadline, (size_of(data), full_size)
            time.sleep(0.2)


@pytest.mark.timeout(180)
def test_server_killed_during_an_erasure_resumes_without_loss(start: Start, own_settings: Settings) -> None:
    data = own_settings.server.data
    slowly = {"erase_within_s": 0.5, "erase_batch_size": 10, "erase_max_pages": 10, "erase_max_vacuum_bytes": 0}
    with patch.dict(os.environ, {f"NOMEMORY_{name.upper()}": str(value) for name, value in slowly.items()}):
        server = Process(data)
        plant(server, "keeper")
        plant(server, "q7erased", 200)
        server.ingest.EraseUser(i.EraseUserRequest(user_id="q7erased"))
        time.sleep(0.7)
        server.kill()
        server = Process(data)
        time.sleep(1.1)
        server.kill()
    with start(own_settings.copy_with_changes(**slowly)) as restarted:
        assert_complete(restarted, "keeper", range(MESSAGES))
        wait_until_gone(data, traces("q7erased", 200))
        assert_complete(restarted, "keeper", range(MESSAGES))
        plant(restarted, "later")
        assert_complete(restarted, "later", range(MESSAGES))
