"""Tests that a damaged lexical index is rebuilt from the log, and that the status reports it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from server.fleet import until

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.tantivy.schema import DIRECTORY
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

WAIT_S = 20
EXTENSIONS = ["term", "store", "fast"]


def cut(data: Path, extension: str, size: int = 5) -> None:
    """Truncate a file by replacing it, which does not affect open files."""
    for victim in (data / DIRECTORY).glob(f"*.{extension}"):
        content = victim.read_bytes()
        victim.unlink()
        victim.write_bytes(content[:size])


def write(server: Server, *messages: object) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token  # type: ignore[arg-type]


def words(server: Server, token: str, text: str = "hello") -> list[str]:
    request = q.LexicalSearchRequest(user_id="u", query_text=text, at_least=token)
    return ids(server.query.LexicalSearch(request, timeout=WAIT_S).items)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The data directory of a stopped server with a message, and the token of its write."""
    data = tmp_path_factory.mktemp("written") / "data"
    settings = settings_without_embedder(data)
    with started(settings) as server:
        token = write(server, new_message("u", "m", "hello"))
        assert words(server, token) == ["m"]
    return data, token


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_server_starts_with_a_damaged_lexical_index(
    start: Start, own_settings: Settings, written: tuple[Path, str], extension: str
) -> None:
    data, token = written
    shutil.copytree(data, own_settings.server.data)
    cut(own_settings.server.data, extension)
    with start(own_settings) as server:
        assert words(server, token) == ["m"]


def test_index_damage_of_a_running_server_is_repaired_and_reported(start: Start, own_settings: Settings) -> None:
    with start(own_settings) as server:
        words(server, write(server, new_message("u", "m0", "hello", ts=0)))
        cut(own_settings.server.data, "term")
        token = write(server, new_message("u", "m1", "hello", ts=1))
        assert sorted(wait_for_matches(server, token)) == ["m0", "m1"]
        assert until(lambda: is_repaired_and_reported(server))


def is_repaired_and_reported(server: Server) -> bool:
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
    return (status.lexical.error, status.lexical.checkpoint) == ("IndexUnusableError", status.log.sequence)


def wait_for_matches(server: Server, token: str) -> list[str]:
    give_up = time.monotonic() + WAIT_S
    while True:
        try:
            return words(server, token)
        except grpc.RpcError as error:
            assert refusal(error).reason == "INDEX_UNAVAILABLE"  # noqa: PT017 - any other is a failure
            assert time.monotonic() < give_up
