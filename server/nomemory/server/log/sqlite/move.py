"""A log's file as what is moved: its rows, and how it is marked meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from nomemory.server.log.move import MOVED, UNFINISHED, Condition, Row, Table
from nomemory.server.log.position import LogPosition
from nomemory.server.log.protocol import LogUnusableError
from nomemory.server.log.sqlite.erasure import locked
from nomemory.server.log.sqlite.schema import (
    EPOCH,
    FORGOTTEN,
    LAST_ID,
    SCHEMA_VERSION,
    be_durable,
    latest_sequence,
    meta,
    open_for_writing,
    position,
)
from nomemory.server.log.sqlite.writer import TUNING

_PUT: Final = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2"
_IS_EMPTY: Final = "SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM meta WHERE key <> 'log_id')"
_OLD: Final = "{path} has schema {version}: start a server of this version on it first"
_NAMES: Final = {
    "ts_us": "ts",
    "sequence": "seq",
    "removed_sequence": "removed_seq",
    "latest_sequence": "latest_seq",
    "checksum": "crc",
}
"""Columns that have other names here."""


def condition_of(path: Path) -> Condition:
    """Return what a log's file is; where there is none, an empty one.

    Raises:
        LogUnusableError: it is of another version.
        sqlite3.Error: it is no log, or cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return Condition.EMPTY
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version in {UNFINISHED, MOVED}:
            return Condition.UNFINISHED if version == UNFINISHED else Condition.MOVED
        if version != SCHEMA_VERSION:
            raise LogUnusableError(_OLD.format(path=path, version=version))
        (is_empty,) = connection.execute(_IS_EMPTY).fetchone()
        return Condition.EMPTY if is_empty else Condition.IN_USE


def begin_copy(path: Path, log: LogPosition) -> None:
    """Make an empty file the unfinished copy of a log, durably.

    Raises:
        LogUnusableError, LogVersionError, sqlite3.Error: it cannot be made.
    """
    with closing(open_for_writing(path)) as connection, locked(connection):
        connection.execute(_PUT, ("log_id", log.identity.log_id))
        if log.identity.epoch:
            connection.execute(_PUT, (EPOCH, log.identity.epoch))
        connection.execute(_PUT, (FORGOTTEN, str(log.sequence)))
        connection.execute(f"PRAGMA user_version={UNFINISHED}")


def open_copy(path: Path) -> sqlite3.Connection:
    """Open an unfinished copy for writing."""
    connection = sqlite3.connect(path, isolation_level=None)
    be_durable(connection)
    for pragma in TUNING:
        connection.execute(pragma)
    return connection


def finish_copy(connection: sqlite3.Connection, sequence: int, last_id: int) -> None:
    """Make a complete copy a log, durably.

    Args:
        connection: to the copy.
        sequence: of the log's latest change.
        last_id: the number of the last id that it made; 0: it made none.
    """
    with locked(connection):
        if last_id:
            connection.execute(_PUT, (LAST_ID, str(last_id)))
        connection.execute("DELETE FROM meta WHERE key = ?", (FORGOTTEN,))
        if latest_sequence(connection) < sequence:  # what the last changes removed is forgotten
            connection.execute(_PUT, (FORGOTTEN, str(sequence)))
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def mark_moved(path: Path) -> None:
    """Mark a file so that no server starts on it any more, durably. No server may be running."""
    with closing(open_copy(path)) as connection, locked(connection):
        connection.execute(f"PRAGMA user_version={MOVED}")


class SqliteTables:
    """The rows of a log's file; implements `LogCopy`.

    Args:
        connection: to the file. Nobody else uses it, and it is for writing where rows are added.

    Raises (any method): sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change."""
        return position(self._connection)

    async def last_id(self) -> int:
        """Return the number of the last id that was made."""
        return int(meta(self._connection, LAST_ID) or "0")

    async def count(self, table: Table) -> int:
        """Return how many rows a table has."""
        return int(self._connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0])  # noqa: S608 - ours

    async def page(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        """Return up to `limit` rows after a row, in the order of their keys."""
        key, places = _listed(table.key), ", ".join("?" * len(table.key))
        beyond = f"WHERE ({key}) > ({places})" if after else ""
        statement = f"SELECT {_listed(table.columns)} FROM {table.name} {beyond} ORDER BY {key} LIMIT ?"  # noqa: S608
        return self._connection.execute(statement, (*(after or ())[: len(table.key)], limit)).fetchall()

    async def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet."""
        columns, places = _listed(table.columns), ", ".join("?" * len(table.columns))
        statement = f"INSERT OR IGNORE INTO {table.name} ({columns}) VALUES ({places})"  # noqa: S608 - ours
        with locked(self._connection):
            self._connection.executemany(statement, rows)

    async def clear(self, table: Table) -> None:
        """Delete all rows of a table."""
        self._connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - ours


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(_NAMES.get(column, column) for column in columns)
