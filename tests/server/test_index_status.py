"""Tests for GetIndexStatus: the status of one user, and failing background jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import grpc
import pytest

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.tantivy.schema import DIRECTORY
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

WAIT_S = 20


def write(server: Server, *messages: object) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token  # type: ignore[arg-type]


def status(server: Server, user: str = "") -> i.GetIndexStatusResponse:
    return server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id=user))


def until(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_user_status_does_not_reveal_other_writes(start: Start, own_settings: Settings) -> None:
    with start(own_settings) as server:
        write(server, new_message("mine", "m", "hello", embedding=[1, 0, 0, 0]))
        write(server, *(new_message("theirs", f"m{n}", "hello", embedding=[1, 0, 0, 0]) for n in range(20)))
        until(lambda: status(server).vector.checkpoint == status(server).lexical.checkpoint == 21)
        mine = status(server, "mine")
        assert (mine.log.sequence, mine.lexical.checkpoint, mine.vector.checkpoint) == (1, 1, 1)
        assert (mine.log.messages, mine.log.users) == (1, 1)
        nobody = status(server, "nobody")
        assert (nobody.log.sequence, nobody.lexical.checkpoint, nobody.vector.checkpoint) == (0, 0, 0)
        assert status(server).log.sequence == 21


def test_failing_indexer_is_reported_and_blocks_nothing_else(start: Start, own_settings: Settings) -> None:
    with TantivyLexicalWriter(own_settings.server.data / DIRECTORY, 15_000_000), start(own_settings) as server:
        token = write(server, new_message("u", "m", "hello"))
        until(lambda: status(server).lexical.error == "ValueError")
        assert status(server).vector.error == ""

        by_time = server.query.LexicalSearch(q.LexicalSearchRequest(user_id="u", at_least=token), timeout=WAIT_S)
        assert ids(by_time.items) == ["m"], "an empty search reads the log without waiting for an index"
        with pytest.raises(grpc.RpcError) as error:
            server.query.LexicalSearch(q.LexicalSearchRequest(user_id="u", query_text="x", at_least=token), timeout=0.3)
        assert refusal(error.value).reason == "INDEX_LAGGING"
