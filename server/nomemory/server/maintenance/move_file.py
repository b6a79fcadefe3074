"""A log in a file as what is moved, and as where a log is moved to. The data directory is locked meanwhile."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.move import MOVED, UNFINISHED, Condition
from nomemory.server.log.position import FeedPosition, LogPosition
from nomemory.server.log.protocol import LogUnusableError
from nomemory.server.log.sqlite.schema import (
    EPOCH,
    FORGOTTEN,
    LAST_ID,
    SCHEMA_VERSION,
    be_durable,
    insert_rows,
    latest_sequence,
    listed,
    locked,
    open_for_reading,
    open_for_writing,
    position,
    put_meta,
    remove_log,
    state_of,
)
from nomemory.server.log.tables import Row, Table
from nomemory.server.maintenance.loss import read_record, write_record
from nomemory.server.maintenance.move import ALREADY, HandOver, MigrationError, refuse
from nomemory.server.private_files import sync
from nomemory.server.vector.indexing.moved_backlog import follow_one, has_own_index

_NO_SOURCE: Final = {
    Condition.EMPTY: "there are no messages to move in {root}",
    Condition.UNFINISHED: "{log} is an unfinished copy itself: finish that move first",
}
_NO_TARGET: Final = {
    Condition.IN_USE: "there is a message log in {root} already. Choose another directory",
    Condition.MOVED: "{log} is what was moved from here once. Put it away, or delete it",
}
_OTHER_COPY: Final = "{log} is the unfinished copy of another log. Delete it, or choose another directory"
_OTHER_RECORD: Final = "{root} belongs to another message log, as its log.json says. Choose another directory"
_STALE: Final = """\
the index by meaning in {root} has not followed the log in the database, and may have missed removals. Delete the \
directory `vectors` there, and have it built anew; or choose another directory"""
_OLD: Final = "{log} has schema {version}: start a server of this version on it first"

_IS_EMPTY: Final = "SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM meta WHERE key <> 'log_id')"


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log of a data directory, or a copy that is to be one; implements `LogPlace`.

    Attributes:
        directory: which.
        connection: to the file. Nobody else uses it, and it is for writing where rows are added.
        was_moved: whether it was marked before, for a copy that was not finished.

    Raises (any method): sqlite3.Error.
    """

    directory: DataDirectory
    connection: sqlite3.Connection
    was_moved: bool = False

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change."""
        return position(self.connection)

    async def count(self, table: Table) -> int:
        """Return how many rows a table has."""
        return int(self.connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0])  # noqa: S608 - ours

    async def page(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        """Return up to `limit` rows after a row, in the order of their keys."""
        key, places = listed(table.key), ", ".join("?" * len(table.key))
        beyond = f"WHERE ({key}) > ({places})" if after else ""
        statement = f"SELECT {listed(table.columns)} FROM {table.name} {beyond} ORDER BY {key} LIMIT ?"  # noqa: S608
        return self.connection.execute(statement, (*(after or ())[: len(table.key)], limit)).fetchall()

    async def handed_over(self) -> HandOver:
        """Return what the target has to know."""
        log = await self.position()
        return HandOver(log, state_of(self.connection).last_id, FeedPosition.at(log.sequence), {})

    async def mark_moved(self) -> None:
        """Mark the file. The index of words goes: nothing would take out of it what is deleted."""
        shutil.rmtree(self.directory.lexical, ignore_errors=True)  # first: nobody comes back to a log that is marked
        with closing(_open_copy(self.directory)) as connection, locked(connection):
            connection.execute(f"PRAGMA user_version={MOVED}")

    async def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows."""
        with locked(self.connection):
            insert_rows(self.connection, table, rows)

    async def clear(self, *tables: Table) -> None:
        """Delete all rows of some tables."""
        for table in tables:
            self.connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - ours

    async def prepare(self) -> None:
        """Do nothing: SQLite has no need."""

    async def finish(self, given: HandOver) -> None:
        """Make the copy the directory's log. An index of words that is there goes: it may have missed removals."""
        shutil.rmtree(self.directory.lexical, ignore_errors=True)
        follow_one(self.directory.vectors, given.reached, given.shared)
        write_record(self.directory.record, given.position)
        with locked(self.connection):
            if given.last_id:
                put_meta(self.connection, LAST_ID, given.last_id)
            self.connection.execute("DELETE FROM meta WHERE key = ?", (FORGOTTEN,))
            if latest_sequence(self.connection) < given.position.sequence:  # the last removals are forgotten
                put_meta(self.connection, FORGOTTEN, given.position.sequence)
            self.connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


@contextmanager
def open_source(directory: DataDirectory) -> Iterator[LogFile]:
    """Open the log of a data directory. No server can start on it meanwhile.

    Raises:
        MigrationError: there is nothing to move.
        DataDirectoryBusyError: its server runs.
        DataDirectoryUnusableError, LogUnusableError, sqlite3.Error: it cannot be read.
    """
    if not directory.log.exists():
        refuse(Condition.EMPTY, _NO_SOURCE, directory)
    with directory.taken():
        condition = _condition_of(directory)
        refuse(condition, _NO_SOURCE, directory)
        with closing(open_for_reading(directory.log)) as connection:
            yield LogFile(directory, connection, was_moved=condition is Condition.MOVED)


@contextmanager
def open_target(
    directory: DataDirectory, log: LogPosition, *, has_followed: bool, may_begin: bool
) -> Iterator[LogFile]:
    """Open a data directory for a log, or the unfinished copy of it that is there. No server can start on it meanwhile.

    Args:
        directory: which.
        log: which log. A copy that was begun when the log was not as far is of no use, and begun anew.
        has_followed: whether the indexes in the directory have all removals, or get them.
        may_begin: whether there may be nothing of it yet.

    Raises:
        MigrationError: something else is there.
        DataDirectoryBusyError: a server uses it.
        DataDirectoryUnusableError, LogUnusableError, LogVersionError, OSError, sqlite3.Error: it cannot be written.
    """
    with directory.taken():
        record = read_record(directory.record)
        if record is not None and record.sequence and not record.is_of(log.identity):
            raise MigrationError(_OTHER_RECORD.format(root=directory.root))
        condition = _condition_of(directory)
        refuse(condition, _NO_TARGET, directory)
        if has_own_index(directory.vectors) and not has_followed:
            raise MigrationError(_STALE.format(root=directory.root))
        if condition is Condition.EMPTY and not may_begin:
            raise MigrationError(ALREADY)
        if condition is Condition.EMPTY or not _goes_on(directory, log):
            begin_copy(directory, log)
        with closing(_open_copy(directory)) as connection:
            yield LogFile(directory, connection)


def begin_copy(directory: DataDirectory, log: LogPosition) -> None:
    """Make a file the empty, unfinished copy of a log, durably."""
    remove_log(directory.log)
    os.close(os.open(directory.log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync(directory.root)
    with closing(open_for_writing(directory.log)) as connection, locked(connection):
        put_meta(connection, "log_id", log.identity.log_id)
        if log.identity.epoch:
            put_meta(connection, EPOCH, log.identity.epoch)
        put_meta(connection, FORGOTTEN, log.sequence)
        connection.execute(f"PRAGMA user_version={UNFINISHED}")


def _condition_of(directory: DataDirectory) -> Condition:
    """Return what a log's file is; where there is none, an empty one.

    Raises:
        LogUnusableError: it is of another version.
        sqlite3.Error: it is no log, or cannot be read.
    """
    if not directory.log.exists() or not directory.log.stat().st_size:
        return Condition.EMPTY
    with closing(open_for_reading(directory.log)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version in {UNFINISHED, MOVED}:
            return Condition.UNFINISHED if version == UNFINISHED else Condition.MOVED
        if version != SCHEMA_VERSION:
            raise LogUnusableError(_OLD.format(log=directory.log, version=version))
        (is_empty,) = connection.execute(_IS_EMPTY).fetchone()
        return Condition.EMPTY if is_empty else Condition.IN_USE


def _goes_on(directory: DataDirectory, log: LogPosition) -> bool:
    """Return whether a copy is of this very state of a log."""
    with closing(open_for_reading(directory.log)) as connection:
        found = position(connection)
    if found.identity != log.identity:
        raise MigrationError(_OTHER_COPY.format(log=directory.log))
    return found == log


def _open_copy(directory: DataDirectory) -> sqlite3.Connection:
    connection = sqlite3.connect(directory.log, isolation_level=None)
    be_durable(connection)
    return connection
