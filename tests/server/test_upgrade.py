"""Tests that a data directory of the previous version opens with its messages and indexes."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from log.former_log import FORMER
from server.fleet import until
from server.test_expiry import found_by_every_read, tea, write

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from running_server import Server


def downgrade(log: Path, schema: int) -> None:
    """Convert a log to the schema of the previous version."""
    with closing(sqlite3.connect(log)) as file:
        file.executescript("DROP TABLE erasures; DROP TABLE epochs; PRAGMA user_version=3;")
        if schema <= 2:
            file.executescript("ALTER TABLE messages DROP COLUMN crc; PRAGMA user_version=2;")
        if schema > 1:
            return
        file.executescript(
            "DROP INDEX messages_by_expiry; ALTER TABLE messages DROP COLUMN expire_us; DROP TABLE requests; "
            "DROP TABLE metadata_entries; "
            "DELETE FROM meta WHERE key <> 'log_id'; PRAGMA user_version=1;"
        )


def segments(data: Path) -> set[str]:
    return {path.name for path in DataDirectory(data).lexical_index.glob("*.store")}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The data directory of a stopped server with indexed messages, and the token of their write."""
    data = tmp_path_factory.mktemp("written") / "data"
    settings = settings_without_embedder(data)
    with started(settings) as server:
        token = write(server, *(tea("u", name, index) for index, name in enumerate("abc"))).write_token
        found_by_every_read(server, "u", "a", token)
    return data, token


@pytest.mark.parametrize("schema", FORMER)
def test_previous_version_directory_opens_without_rebuilding_indexes(
    start: Callable[[Settings], AbstractContextManager[Server]],
    own_settings: Settings,
    written: tuple[Path, str],
    schema: int,
) -> None:
    data = own_settings.server.data
    source, token = written
    shutil.copytree(source, data)
    downgrade(data / "log.db", schema)
    before = segments(data)
    assert before
    with start(own_settings) as server:
        ids_by_read = found_by_every_read(server, "u", "a", token)
        assert set(map(tuple, ids_by_read.values())) == {("a", "b", "c")}

        def is_settled() -> bool:
            status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
            return (status.log.messages, status.lexical.pending, status.vector.pending) == (3, 0, 0)

        assert until(is_settled)
    assert segments(data) == before
