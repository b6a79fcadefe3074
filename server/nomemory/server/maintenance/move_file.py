"""A log in a file as what is moved, and as where a log is moved to. The data directory is locked meanwhile."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.move import Condition
from nomemory.server.log.position import FeedPosition, LogPosition
from nomemory.server.log.sqlite.move import SqliteTables, begin_copy, condition_of, finish_copy, mark_moved, open_copy
from nomemory.server.log.sqlite.schema import open_for_reading, position, remove_log
from nomemory.server.maintenance.loss import read_record, write_record
from nomemory.server.maintenance.move import ALREADY, HandOver, MigrationError
from nomemory.server.private_files import sync
from nomemory.server.vector.indexing.moved_backlog import follow_one, has_own_index

_NOTHING: Final = "there are no messages to move in {root}"
_COPY: Final = "{log} is an unfinished copy itself: finish that move first"
_IN_USE: Final = "there is a message log in {root} already. Choose another directory"
_WAS_MOVED: Final = "{log} is what was moved from here once. Put it away, or delete it"
_OTHER_COPY: Final = "{log} is the unfinished copy of another log. Delete it, or choose another directory"
_OTHER_RECORD: Final = "{root} belongs to another message log, as its log.json says. Choose another directory"
_STALE: Final = """\
the index by meaning in {root} has not followed the log in the database, and may have missed removals. Delete the \
directory `vectors` there, and have it built anew; or choose another directory"""


@dataclass(frozen=True, slots=True)
class FileSource:
    """The log of a data directory; implements `Source`. `open_source` makes it."""

    directory: DataDirectory
    tables: SqliteTables
    was_moved: bool

    async def handed_over(self) -> HandOver:
        """Return what the target has to know."""
        log = await self.tables.position()
        return HandOver(log, await self.tables.last_id(), FeedPosition.at(log.sequence), {})

    async def mark_moved(self) -> None:
        """Mark the file. The index of words goes: nothing would take out of it what is deleted."""
        shutil.rmtree(self.directory.lexical, ignore_errors=True)  # first: nobody comes back to a log that is marked
        mark_moved(self.directory.log)


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A data directory that gets a log; implements `Target`. `open_target` makes it."""

    directory: DataDirectory
    connection: sqlite3.Connection

    @property
    def copy(self) -> SqliteTables:
        """The rows of the copy."""
        return SqliteTables(self.connection)

    async def prepare(self) -> None:
        """Do nothing: SQLite has no need."""

    async def finish(self, given: HandOver) -> None:
        """Make the copy the directory's log. An index of words that is there goes: it may have missed removals."""
        shutil.rmtree(self.directory.lexical, ignore_errors=True)
        follow_one(self.directory.vectors, given.reached, given.shared)
        write_record(self.directory.record, given.position)
        finish_copy(self.connection, given.position.sequence, given.last_id)


@contextmanager
def open_source(directory: DataDirectory) -> Iterator[FileSource]:
    """Open the log of a data directory. No server can start on it meanwhile.

    Raises:
        MigrationError: there is nothing to move.
        DataDirectoryBusyError: its server runs.
        DataDirectoryUnusableError, LogUnusableError, sqlite3.Error: it cannot be read.
    """
    if not directory.log.exists():
        raise MigrationError(_NOTHING.format(root=directory.root))
    with directory.taken():
        condition = condition_of(directory.log)
        if condition in {Condition.EMPTY, Condition.UNFINISHED}:
            text = _NOTHING if condition is Condition.EMPTY else _COPY
            raise MigrationError(text.format(root=directory.root, log=directory.log))
        with closing(open_for_reading(directory.log)) as connection:
            yield FileSource(directory, SqliteTables(connection), was_moved=condition is Condition.MOVED)


@contextmanager
def open_target(
    directory: DataDirectory, log: LogPosition, *, has_followed: bool, may_begin: bool
) -> Iterator[FileTarget]:
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
        _refuse_other_record(directory, log)
        condition = condition_of(directory.log)
        if condition in {Condition.IN_USE, Condition.MOVED}:
            text = _IN_USE if condition is Condition.IN_USE else _WAS_MOVED
            raise MigrationError(text.format(root=directory.root, log=directory.log))
        if has_own_index(directory.vectors) and not has_followed:
            raise MigrationError(_STALE.format(root=directory.root))
        if condition is Condition.EMPTY and not may_begin:
            raise MigrationError(ALREADY)
        if condition is Condition.EMPTY or not _goes_on(directory, log):
            _begin(directory, log)
        with closing(open_copy(directory.log)) as connection:
            yield FileTarget(directory, connection)


def _goes_on(directory: DataDirectory, log: LogPosition) -> bool:
    """Return whether a copy is of this very state of a log."""
    with closing(open_for_reading(directory.log)) as connection:
        found = position(connection)
    if found.identity != log.identity:
        raise MigrationError(_OTHER_COPY.format(log=directory.log))
    return found == log


def _begin(directory: DataDirectory, log: LogPosition) -> None:
    remove_log(directory.log)
    os.close(os.open(directory.log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync(directory.root)
    begin_copy(directory.log, log)


def _refuse_other_record(directory: DataDirectory, log: LogPosition) -> None:
    record = read_record(directory.record)
    if record is not None and record.sequence and not record.is_of(log.identity):
        raise MigrationError(_OTHER_RECORD.format(root=directory.root))
