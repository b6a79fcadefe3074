"""A log of an older schema is upgraded, and a log of an unknown schema is rejected."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from log.engine import open_sqlite_log
from log.former_log import FORMER, LOG_ID, make_former_log
from log.test_message_log import new_message

from nomemory.server.store.errors import LogUnusableError, LogVersionError
from nomemory.server.store.results import WriteOutcome
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.writer import SqliteLogWriter

STORED = [
    new_message("one", message_id="a", ts_us=1)._replace(embedding=b"\0\0\x80?"),
    new_message("two" * 3_000, message_id="b", ts_us=2, user="u")._replace(conversation_id="c"),
]


def shape(path: Path) -> dict[str, set[str]]:
    """Return the columns of each table, and the indexes."""
    with closing(sqlite3.connect(path)) as file:
        names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")]
        info = "SELECT name FROM pragma_table_xinfo(?)"
        return {name: {column for (column,) in file.execute(info, (name,))} for name in names}


@pytest.mark.parametrize("schema", FORMER)
async def test_upgraded_log_keeps_its_messages_and_identity(tmp_path: Path, schema: int) -> None:
    make_former_log(tmp_path / "log.db", "u", STORED, schema)
    log = await open_sqlite_log(tmp_path)
    without_vectors = [message._replace(embedding=None) for message in reversed(STORED)]
    assert await log.everything() == without_vectors
    assert (await log.reader.read_identity(), await log.reader.read_sequence()) == ((LOG_ID, ""), 2)
    assert [change.sequence for change in log.feed.read_changes(0, 10)] == [1, 2]
    assert await log.write(*STORED) == (WriteOutcome.UNCHANGED,) * 2
    assert await log.write(new_message("new", message_id="n", ts_us=3)._replace(expire_us=1)) == (WriteOutcome.CREATED,)
    assert await log.sweep() == 1
    assert (await log.writer.erase("u")).deleted == 2
    await log.close()


@pytest.mark.parametrize("schema", FORMER)
async def test_an_upgraded_log_has_the_schema_of_a_new_one(tmp_path: Path, schema: int) -> None:
    make_former_log(tmp_path / "log.db", "u", STORED, schema)
    for _ in range(2):  # the second start upgrades nothing
        await (await open_sqlite_log(tmp_path)).close()
    (tmp_path / "new").mkdir()
    await (await open_sqlite_log(tmp_path / "new")).close()
    assert shape(tmp_path / "log.db") == shape(tmp_path / "new" / "log.db")


async def test_the_maximum_age_applies_to_an_upgraded_log(tmp_path: Path) -> None:
    make_former_log(tmp_path / "log.db", "u", STORED)
    log = await open_sqlite_log(tmp_path, RetentionPolicy(10, lambda: 11))
    assert [message.message_id for message in await log.everything()] == ["b"]
    assert await log.sweep() == 1
    await log.close()


def test_an_unknown_schema_is_rejected_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version=5")
    with pytest.raises(LogVersionError, match="has schema 5, but this server supports only schemas up to 4"):
        SqliteLogWriter(path, queue_max=1, queue_max_bytes=1, announce=lambda: None)
    assert shape(path) == {}


@pytest.mark.parametrize("schema", FORMER)
async def test_a_failed_upgrade_changes_nothing(tmp_path: Path, schema: int) -> None:
    make_former_log(tmp_path / "log.db", "u", STORED, schema)
    before = shape(tmp_path / "log.db")
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        file.execute("CREATE TABLE epochs (number)")  # created last
    with pytest.raises(LogUnusableError, match="cannot be opened"):
        await open_sqlite_log(tmp_path)
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        file.execute("DROP TABLE epochs")
    assert shape(tmp_path / "log.db") == before
    log = await open_sqlite_log(tmp_path)
    assert len(await log.everything()) == 2
    await log.close()
