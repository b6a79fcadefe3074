"""A log in a file as what is moved, and as where a log is moved to."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.move import Condition
from nomemory.server.log.position import FeedPosition, LogIdentity
from nomemory.server.log.protocol import LogReader
from nomemory.server.log.sqlite.move import SqliteTables, begin_copy, condition_of, finish_copy, mark_moved, open_copy
from nomemory.server.log.sqlite.reader import SqliteLogReader
from nomemory.server.log.sqlite.schema import identity, open_for_reading
from nomemory.server.maintenance.loss import read_record, write_record
from nomemory.server.maintenance.move import ALREADY, HandOver, MigrationError
from nomemory.server.private_files import sync
from nomemory.server.vector.indexing.moved_backlog import follow_one, has_own_index

_NOTHING: Final = "there are no messages to move in {root}"
_COPY: Final = "{log} is an unfinished copy itself: finish it with --switch"
_IN_USE: Final = "there is a message log in {root} already. Choose another directory"
_WAS_MOVED: Final = "{log} is what was moved from here once. Put it away, or delete it"
_OTHER_COPY: Final = "{log} is the unfinished copy of another log. Delete it, or choose another directory"
_OTHER_RECORD: Final = "{root} belongs to another message log, as its log.json says. Choose another directory"
_STALE: Final = """\
the index by meaning in {root} has not followed the log in the database, and may have missed removals. Delete the \
directory `vectors` there, and have it built anew; or choose another directory"""


class FileSource:
    """The log of a data directory; implements `Source`.

    Args:
        directory: whose log.

    Raises:
        MigrationError: there is nothing to move.
        LogUnusableError, sqlite3.Error: it cannot be read.
    """

    def __init__(self, directory: DataDirectory) -> None:
        condition = condition_of(directory.log)
        if condition in {Condition.EMPTY, Condition.UNFINISHED}:
            text = _NOTHING if condition is Condition.EMPTY else _COPY
            raise MigrationError(text.format(root=directory.root, log=directory.log))
        self._directory = directory
        self._was_moved = condition is Condition.MOVED
        self._tables = SqliteTables(open_for_reading(directory.log))

    @property
    def tables(self) -> SqliteTables:
        """Its rows."""
        return self._tables

    @property
    def was_moved(self) -> bool:
        """Whether it was switched off before."""
        return self._was_moved

    def reader(self, lifetimes: Lifetimes) -> LogReader:
        """Open it as a server reads it."""
        return SqliteLogReader(self._directory.log, lifetimes)

    def refuse_running(self) -> None:
        """Look whether its server runs."""
        self._directory.refuse_busy()

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Keep its server from starting."""
        with self._directory.taken():
            yield

    async def handed_over(self) -> HandOver:
        """Return what the target has to know."""
        log = await self._tables.position()
        return HandOver(log, await self._tables.last_id(), FeedPosition.at(log.sequence), {})

    async def mark_moved(self) -> None:
        """Have no server serve it any more. Its index of words goes: nothing would take out of it what is deleted."""
        shutil.rmtree(self._directory.lexical, ignore_errors=True)  # first: a log that is marked is not come back to
        mark_moved(self._directory.log)

    async def aclose(self) -> None:
        """Close the file."""
        self._tables.close()


class FileTarget:
    """A data directory that gets a log; implements `Target`.

    Args:
        directory: which.
        log: which log is to be moved there.
        has_followed: whether the indexes in the directory have all removals, or get them.
        may_begin: whether there may be nothing of it yet.

    Raises:
        MigrationError: something else is there.
        LogUnusableError, LogVersionError, OSError, sqlite3.Error: it cannot be written.
    """

    def __init__(self, directory: DataDirectory, log: LogIdentity, *, has_followed: bool, may_begin: bool) -> None:
        self._directory = directory
        _refuse_other_record(directory, log)
        condition = condition_of(directory.log)
        if condition in {Condition.IN_USE, Condition.MOVED}:
            text = _IN_USE if condition is Condition.IN_USE else _WAS_MOVED
            raise MigrationError(text.format(root=directory.root, log=directory.log))
        if has_own_index(directory.vectors) and not has_followed:
            raise MigrationError(_STALE.format(root=directory.root))
        if condition is Condition.EMPTY:
            if not may_begin:
                raise MigrationError(ALREADY)
            _begin(directory, log)
        self._connection = open_copy(directory.log)
        self._copy = SqliteTables(self._connection)
        if identity(self._connection) != log:
            self._copy.close()
            raise MigrationError(_OTHER_COPY.format(log=directory.log))

    @property
    def copy(self) -> SqliteTables:
        """The rows of the copy."""
        return self._copy

    def reader(self, lifetimes: Lifetimes) -> LogReader:
        """Open the copy as a server reads it."""
        return SqliteLogReader(self._directory.log, lifetimes)

    def refuse_running(self) -> None:
        """Look whether a server uses the directory."""
        self._directory.refuse_busy()

    async def tidy(self) -> None:
        """Do nothing: SQLite has no need."""

    async def finish(self, given: HandOver) -> None:
        """Make the copy the directory's log. An index of words that is there goes: it may have missed removals."""
        with self._directory.taken():
            shutil.rmtree(self._directory.lexical, ignore_errors=True)
            follow_one(self._directory.vectors, given.reached, given.shared)
            write_record(self._directory.record, given.position)
            finish_copy(self._connection, given.position.sequence, given.last_id)

    async def aclose(self) -> None:
        """Close the file."""
        self._copy.close()


def _begin(directory: DataDirectory, log: LogIdentity) -> None:
    directory.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(directory.log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync(directory.root)
    begin_copy(directory.log, log)


def _refuse_other_record(directory: DataDirectory, log: LogIdentity) -> None:
    record = read_record(directory.record)
    if record is not None and record.sequence and not record.is_of(log):
        raise MigrationError(_OTHER_RECORD.format(root=directory.root))
