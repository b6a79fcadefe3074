"""Tests that damage of the message log is reported, and that only undamaged messages are served."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from server.fleet import until

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

WAIT_S = 20
_PAGE = 4096


def write(server: Server, *messages: object) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a stopped server with messages of three users; a test damages those of one."""
    data = tmp_path_factory.mktemp("written") / "data"
    settings = settings_without_embedder(data)
    with started(settings) as server:
        write(server, *(new_message("first", f"m{n}", "many others", ts=n) for n in range(500)))
        write(server, *(new_message("hurt", f"m{n}", f"the cask number {n} of amontillado", ts=n) for n in range(200)))
        write(server, *(new_message("sound", f"m{n}", f"the pit number {n}", ts=n) for n in range(200)))
    with closing(sqlite3.connect(data / "log.db")) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return data


@pytest.fixture
def log(written: Path, own_settings: Settings) -> Path:
    """The log in a copy of the data directory."""
    shutil.copytree(written, own_settings.server.data)
    return own_settings.server.data / "log.db"


def flip(log: Path, text: bytes, bit: int = 1) -> None:
    """Change one bit in the content of a message."""
    content = bytearray(log.read_bytes())
    content[content.index(text)] ^= bit
    log.write_bytes(content)


def list_all(server: Server, user: str) -> list[str]:
    return ids(server.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=500)).items)


def log_status(server: Server, user: str = "") -> i.LogStatus:
    return server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id=user)).log


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return refusal(error.value).reason


def test_damaged_message_is_not_returned_and_hides_no_other_message(
    start: Start, own_settings: Settings, log: Path
) -> None:
    flip(log, b"cask number 77")
    with start(own_settings) as server:
        assert refused(lambda: list_all(server, "hurt")) == "STORAGE_UNAVAILABLE"
        near = q.GetNeighborsRequest(user_id="hurt", message_id="m77", before=1, after=1)
        assert refused(lambda: server.query.GetNeighbors(near)) == "STORAGE_UNAVAILABLE"
        assert len(list_all(server, "sound")) == 200
        token = write(server, new_message("hurt", "new", "a nitre wall", ts=500))
        request = q.LexicalSearchRequest(user_id="hurt", query_text="nitre", at_least=token)
        assert ids(server.query.LexicalSearch(request, timeout=WAIT_S).items) == ["new"]


def test_status_reports_a_damaged_message_before_it_is_read(start: Start, own_settings: Settings, log: Path) -> None:
    flip(log, b"cask number 77")
    with start(own_settings) as server:
        assert until(lambda: log_status(server).HasField("check_ts"))
        status = log_status(server)
        assert (status.damaged, list(status.damaged_sequences), status.error) == (1, [578], "")
        assert (log_status(server, "hurt").damaged, log_status(server, "sound").damaged) == (1, 0)


def test_status_reports_damage_found_by_a_read(start: Start, own_settings: Settings, log: Path) -> None:
    flip(log, b"cask number 77")
    with start(own_settings.copy_with_changes(log_check_pause_s=600.0)) as server:
        assert refused(lambda: list_all(server, "hurt")) == "STORAGE_UNAVAILABLE"
        assert until(lambda: list(log_status(server).damaged_sequences) == [578])
        assert not log_status(server).HasField("check_ts")


def test_a_damaged_message_can_be_deleted(start: Start, own_settings: Settings, log: Path) -> None:
    flip(log, b"cask number 77", 0x80)  # its bytes are no valid message anymore
    with start(own_settings) as server:
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="hurt", message_ids=["m77"]))
        assert len(list_all(server, "hurt")) == 199


def test_damaged_page_fails_reads_and_is_shown_in_the_status(start: Start, own_settings: Settings, log: Path) -> None:
    content = bytearray(log.read_bytes())
    page = content.index(b"cask number 77") // _PAGE
    content[page * _PAGE : (page + 1) * _PAGE] = b"\xff" * _PAGE
    log.write_bytes(content)
    with start(own_settings) as server:
        assert refused(lambda: list_all(server, "hurt")) == "STORAGE_UNAVAILABLE"
        count = q.CountMessagesRequest(user_id="hurt")
        assert refused(lambda: server.query.CountMessages(count)) == "STORAGE_UNAVAILABLE"
        assert len(list_all(server, "sound")) == 200
        assert until(lambda: log_status(server).error != "")


@pytest.mark.usefixtures("log")
def test_undamaged_log_has_no_fault(start: Start, own_settings: Settings) -> None:
    with start(own_settings) as server:
        assert until(lambda: log_status(server).HasField("check_ts"))
        assert (log_status(server).damaged, log_status(server).error) == (0, "")
