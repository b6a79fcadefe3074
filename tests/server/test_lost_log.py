"""Tests that a missing, emptied, damaged or outdated log is served only after confirmation."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from server.fleet import until

from chat_messages import ids, new_message
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.sqlite_store import SqliteStore
from nomemory.server.store.consistency import LogLostError, accept_loss
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

WAIT_S = 20
VECTOR = (1.0, 0.0, 0.0, 0.0)


def write(server: Server, *names: str) -> str:
    messages = [new_message("u", name, f"about {name}", ts=index, embedding=VECTOR) for index, name in enumerate(names)]
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token


def by_words(server: Server, text: str, token: str = "") -> list[str]:
    request = q.LexicalSearchRequest(user_id="u", query_text=text, at_least=token)
    return ids(server.query.LexicalSearch(request, timeout=WAIT_S).items)


def by_meaning(server: Server, token: str) -> list[str]:
    embedding = q.Embedding(values=VECTOR)
    request = q.SemanticSearchRequest(user_id="u", query_embedding=embedding, top_k=100, at_least=token)
    return sorted(item.message.message_id for item in server.query.SemanticSearch(request, timeout=WAIT_S).items)


def is_settled(server: Server) -> bool:
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
    return status.lexical.checkpoint == status.vector.checkpoint == status.log.sequence


@contextmanager
def settled(start: Start, settings: Settings, *names: str) -> Iterator[Server]:
    """Run a server with these messages in its indexes."""
    with start(settings) as server:
        if names:
            write(server, *names)
        assert until(lambda: is_settled(server))
        yield server


def copy_log(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as log, closing(sqlite3.connect(target)) as copy:
        log.backup(copy)


def remove(data: Path) -> None:
    for path in data.glob("log.db*"):
        path.unlink()


def empty(data: Path) -> None:
    remove(data)
    (data / "log.db").touch()


def restore_older_log(data: Path) -> None:
    remove(data)
    copy_log(data.parent / "older.db", data / "log.db")


def replace_with_another_log(data: Path) -> None:
    remove(data)
    copy_log(data.parent / "other.db", data / "log.db")


LOSSES: dict[Callable[[Path], None], str] = {
    remove: "it is missing, and .* had reached change 5",
    empty: "it is missing, and .* had reached change 5",
    restore_older_log: "it ends at change 2, but .* had reached change 5: at least 3 changes are lost",
    replace_with_another_log: "it is not the log that was recorded here, which had reached change 5",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with five messages, its older log, a copy of it while the server ran, and another log."""
    root = tmp_path_factory.mktemp("prepared")
    with settled(started, settings_without_embedder(root / "other"), *(f"other{n}" for n in range(6))):
        copy_log(root / "other" / "log.db", root / "other.db")
    with settled(started, settings_without_embedder(root / "data"), "apples", "pears") as server:
        copy_log(root / "data" / "log.db", root / "older.db")
        write(server, "bananas", "plums", "figs")
        assert until(lambda: is_settled(server))
        # The state after `kill -9`. Copying the files in this process would release the server's locks on them.
        subprocess.run(["cp", "-R", root / "data", root / "killed"], check=True)  # noqa: S607 - POSIX
    return root


@pytest.fixture
def data(prepared: Path, tmp_path: Path) -> Path:
    """Return a copy of the prepared directory, next to copies of the logs."""
    shutil.copytree(prepared, tmp_path / "copy", ignore=shutil.ignore_patterns("killed", "other"))
    return tmp_path / "copy" / "data"


@pytest.mark.parametrize("lose", LOSSES)
def test_server_does_not_start_if_the_log_has_lost_changes(
    start: Start, data: Path, lose: Callable[[Path], None]
) -> None:
    lose(data)
    for _ in range(2):  # the rejected start changed nothing
        with pytest.raises(LogLostError, match=LOSSES[lose]), start(settings_without_embedder(data)):
            pass


@pytest.mark.parametrize("lose", [empty, restore_older_log, replace_with_another_log])
def test_remaining_messages_are_served_after_confirmation(
    start: Start, data: Path, lose: Callable[[Path], None]
) -> None:
    lose(data)
    accept_loss(DataDirectory(data), SqliteStore(Settings.from_environment(), DataDirectory(data)).begin_epoch)
    with start(settings_without_embedder(data)) as server:
        token = write(server, "zebras", "yaks", "xerus", "wolves")
        left = ids(server.query.ListMessages(q.ListMessagesRequest(user_id="u")).items)
        assert by_words(server, "zebras", token) == ["zebras"]
        assert by_words(server, "bananas", token) == []
        assert sorted(by_words(server, "about", token)) == sorted(left)
        assert by_meaning(server, token) == sorted(left)
        status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
        assert "rebuilding since startup" in status.lexical.notice
        assert "rebuilding since startup" in status.vector.notice


def test_damaged_write_ahead_log_is_reported_as_a_loss(start: Start, prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared / "killed", tmp_path / "copy")
    frames = tmp_path / "copy" / "log.db-wal"
    damaged = bytearray(frames.read_bytes())
    damaged[-2_000] ^= 1
    frames.write_bytes(damaged)
    lost = r"it ends at change 2, but .* had reached change 5: at least 3 changes"
    with pytest.raises(LogLostError, match=lost), start(settings_without_embedder(tmp_path / "copy")):
        pass


def test_new_directory_is_not_a_loss(start: Start, own_settings: Settings) -> None:
    for _ in range(2):
        with start(own_settings) as server:
            assert notices(server) == ("", "")


def test_accepting_a_loss_invalidates_write_tokens_and_is_needed_once(start: Start, own_settings: Settings) -> None:
    with settled(start, own_settings, "apples") as server:
        former = write(server, "pears")
    directory = DataDirectory(own_settings.server.data)
    accept_loss(directory, SqliteStore(own_settings, directory).begin_epoch)
    with settled(start, own_settings) as server:
        with pytest.raises(grpc.RpcError) as error:
            by_words(server, "pears", former)
        assert refusal(error.value).reason == "WRITE_TOKEN_INVALID"
        assert sorted(by_words(server, "about")) == ["apples", "pears"]
    with settled(start, own_settings) as server:
        assert notices(server) == ("", "")


def notices(server: Server) -> tuple[str, str]:
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
    return status.lexical.notice, status.vector.notice
