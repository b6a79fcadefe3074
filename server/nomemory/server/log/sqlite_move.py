"""What a log's file says of itself while it is moved: an unfinished copy, or moved elsewhere."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from nomemory.server.log.identity import LogIdentity
from nomemory.server.log.move_marks import MOVED, UNFINISHED
from nomemory.server.log.protocol import LogUnusableError
from nomemory.server.log.sqlite_erasure import locked
from nomemory.server.log.sqlite_schema import (
    EPOCH,
    FORGOTTEN,
    LAST_ID,
    SCHEMA_VERSION,
    be_durable,
    latest_sequence,
    open_for_writing,
)
from nomemory.server.log.sqlite_writer import TUNING
from nomemory.server.log.tables import Condition

_PUT: Final = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2"
_IS_EMPTY: Final = "SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM meta WHERE key <> 'log_id')"
_OLD: Final = "{path} has schema {version}: start a server of this version on it first"


def condition_of(path: Path) -> Condition:
    """Return what a log's file is; where there is none, an empty one.

    Raises:
        LogUnusableError: it is of another version.
        sqlite3.Error: it is no log, or cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return Condition.EMPTY
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return _condition(connection, path)


def begin_copy(path: Path, log: LogIdentity) -> None:
    """Make an empty file the unfinished copy of a log, durably.

    Raises:
        LogUnusableError, LogVersionError, sqlite3.Error: it cannot be made.
    """
    with closing(open_for_writing(path)) as connection, locked(connection):
        connection.execute(_PUT, ("log_id", log.log_id))
        if log.epoch:
            connection.execute(_PUT, (EPOCH, log.epoch))
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
        if latest_sequence(connection) < sequence:  # what the last changes removed is forgotten
            connection.execute(_PUT, (FORGOTTEN, str(sequence)))
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def mark_moved(path: Path) -> None:
    """Have no server start on a file any more, durably. No server may be running."""
    with closing(open_copy(path)) as connection, locked(connection):
        connection.execute(f"PRAGMA user_version={MOVED}")


def _condition(connection: sqlite3.Connection, path: Path) -> Condition:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version in {UNFINISHED, MOVED}:
        return Condition.UNFINISHED if version == UNFINISHED else Condition.MOVED
    if version != SCHEMA_VERSION:
        raise LogUnusableError(_OLD.format(path=path, version=version))
    (is_empty,) = connection.execute(_IS_EMPTY).fetchone()
    return Condition.EMPTY if is_empty else Condition.IN_USE
