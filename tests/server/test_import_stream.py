"""Tests for imports that end early or wait for the write queue."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from chat_messages import ids, new_message
from nomemory.server.api.validation.ingest_requests import WriteBatch, decode_import, decode_write
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

Start = Callable[[Settings], AbstractContextManager["Server"]]


def batch(user: str, *message_ids: str, content: str = "x") -> i.ImportMessagesRequest:
    return i.ImportMessagesRequest(messages=[new_message(user, item, content) for item in message_ids])


def facts(error: grpc.RpcError) -> dict[str, str]:
    info = error_details_pb2.ErrorInfo()
    rpc_status.from_call(error).details[0].Unpack(info)
    return dict(info.metadata)


@pytest.mark.parametrize(
    ("decode", "kind"), [(decode_import, i.ImportMessagesRequest), (decode_write, i.WriteMessagesRequest)]
)
async def test_validating_a_large_batch_does_not_block_other_tasks(
    decode: Callable[..., Awaitable[WriteBatch]], kind: type[Any]
) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other_calls = asyncio.create_task(others())
    checked = await decode(
        kind(messages=[new_message("u", str(n), "x") for n in range(500)]),
        Settings.from_environment(embedder="none"),
        4,
    )
    other_calls.cancel()
    assert [message.message_id for message in checked.messages] == [str(n) for n in range(500)]
    assert turns >= 10


def test_invalid_batch_ends_the_import_and_keeps_earlier_batches(vector_server: Server, user: str) -> None:
    mixed = i.ImportMessagesRequest(
        messages=[new_message(user, "c", "x"), new_message(user, "d", " "), new_message(user, "a", "x")]
    )
    stream = [batch(user, "a", "b"), mixed, i.ImportMessagesRequest(), batch(user, "e")]
    with pytest.raises(grpc.RpcError) as error:
        vector_server.ingest.ImportMessages(iter(stream))
    assert refusal(error.value).fields == ["messages"]
    so_far = {"batch": "2", "created": "3", "unchanged": "1", "replaced": "0", "rejected": "1"}
    assert facts(error.value).items() >= so_far.items()
    stored = vector_server.query.ListMessages(q.ListMessagesRequest(user_id=user)).items
    assert sorted(ids(stored)) == ["a", "b", "c"]


def test_malformed_batch_is_reported_with_its_position(vector_server: Server, user: str) -> None:
    with grpc.insecure_channel(vector_server.target) as channel:
        call: Any = channel.stream_unary("/nomemory.v1.IngestService/ImportMessages")
        with pytest.raises(grpc.RpcError) as error:
            call(iter([batch(user, "a").SerializeToString(), b"\xff\xff\xff"]))
    assert refusal(error.value).reason == "MALFORMED_REQUEST"
    assert (facts(error.value)["batch"], facts(error.value)["created"]) == ("1", "1")


def test_import_lists_the_first_1000_rejections(vector_server: Server, user: str) -> None:
    blank = [new_message(user, f"m{number}", " ") for number in range(1000)]
    batches = [
        i.ImportMessagesRequest(messages=blank),
        i.ImportMessagesRequest(messages=[new_message(user, "last", " ")]),
    ]
    summary = vector_server.ingest.ImportMessages(iter(batches))
    assert summary.rejected == 1001
    assert [rejection.index for rejection in summary.rejections] == list(range(1000))


@contextmanager
def busy(log: Path) -> Iterator[None]:
    """Hold the write lock of the log, so that its writer waits for up to five seconds."""
    with closing(sqlite3.connect(log, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def overload(server: Server) -> str:
    """Send writes until one is rejected because the queue is full; return the reason."""
    while True:
        write = server.ingest.WriteMessages.future(i.WriteMessagesRequest(messages=[new_message("u", "", "x")]))
        try:
            write.result(timeout=0.2)
        except grpc.FutureTimeoutError:
            continue
        except grpc.RpcError as error:
            return refusal(error).reason


def test_import_waits_while_the_queue_is_full(start: Start, own_settings: Settings) -> None:
    with start(own_settings.copy_with_changes(max_queued_writes=1)) as server:
        with busy(own_settings.server.data / "log.db"):
            assert overload(server) == "OVERLOADED"
            imported = server.ingest.ImportMessages.future(iter([batch("v", "a"), batch("v", "b")]))
            assert overload(server) == "OVERLOADED"
        assert imported.result(timeout=20).created == 2


def test_import_fails_if_the_queue_stays_full(start: Start, own_settings: Settings) -> None:
    with (
        start(own_settings.copy_with_changes(max_queued_writes=1)) as server,
        busy(own_settings.server.data / "log.db"),
    ):
        assert overload(server) == "OVERLOADED"
        with pytest.raises(grpc.RpcError) as error:
            server.ingest.ImportMessages(iter([batch("v", "a")]), timeout=1)
    assert (refusal(error.value).reason, facts(error.value)["batch"]) == ("OVERLOADED", "0")
