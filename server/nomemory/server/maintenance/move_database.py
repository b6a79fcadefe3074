"""A log in PostgreSQL as what is moved, and as where a log is moved to; and the two moves between it and a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.postgres.words import words_of
from nomemory.server.log.move import Condition
from nomemory.server.log.position import LogPosition
from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.erasure import follower_name
from nomemory.server.log.postgres.move import (
    PostgresTables,
    begin_copy,
    condition_of,
    finish_copy,
    follows,
    index_copy,
    is_marked,
    lock_out_writers,
    mark_moved,
    reached,
    take,
)
from nomemory.server.log.postgres.schema import bring_forward
from nomemory.server.maintenance import move_file
from nomemory.server.maintenance.move import ALREADY, HandOver, MigrationError, Outcome, Tell, move
from nomemory.server.vector.indexing.moved_backlog import follow_buckets
from nomemory.server.vector.shared.postgres_index import filled_of

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_NOTHING: Final = "there are no messages to move in the database"
_COPY: Final = "the database has an unfinished copy itself: finish that move first"
_IN_USE: Final = "there is a message log in the database already. Choose another database, or another schema in it"
_WAS_MOVED: Final = "the database has what was moved from there once. Choose another database, or another schema in it"
_OTHER_COPY: Final = "the database has the unfinished copy of another log. Delete its tables, or choose another schema"
_NOT_ALONE: Final = "another migration is at work in the database"


async def move_to_database(directory: DataDirectory, database: Database, tell: Tell) -> Outcome:
    """Move the log of a data directory to a database.

    Args:
        directory: the server's.
        database: empty, or with the unfinished copy of this log.
        tell: told of progress.

    Raises:
        MigrationError, DataDirectoryBusyError, LogUnusableError, LogVersionError: it cannot be moved; says why.
        sqlite3.Error, OSError, one of the database's errors: something else stands in the way.
    """
    with move_file.open_source(directory) as source:
        log = await source.tables.position()
        async with open_target(database, log, directory, may_begin=not source.was_moved) as target:
            return await move(source, target, tell)


async def move_to_file(database: Database, directory: DataDirectory, tell: Tell) -> Outcome:
    """Move the log of a database to a data directory. The arguments and errors are those of `move_to_database`."""
    async with open_source(database) as source:
        log = await source.tables.position()
        has_followed = directory.follower.exists() and await follows(
            source.connection, follower_name(directory.follower)
        )
        may_begin = not source.was_moved
        with move_file.open_target(directory, log, has_followed=has_followed, may_begin=may_begin) as target:
            return await move(source, target, tell)


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """The log of a database; implements `Source`. `open_source` makes it."""

    connection: Connection
    was_moved: bool

    @property
    def tables(self) -> PostgresTables:
        """Its rows."""
        return PostgresTables(self.connection, words_of)

    async def handed_over(self) -> HandOver:
        """Return what the target has to know."""
        log = await self.tables.position()
        shared = await filled_of(self.connection, log.identity.name)
        return HandOver(log, await self.tables.last_id(), await reached(self.connection), shared)

    async def mark_moved(self) -> None:
        """Mark the database, and answer the writes that were kept waiting that the log was moved."""
        await mark_moved(self.connection)
        await self.connection.execute("COMMIT")


@dataclass(frozen=True, slots=True)
class DatabaseTarget:
    """A database that gets a log; implements `Target`. `open_target` makes it. The data directory is locked."""

    connection: Connection
    directory: DataDirectory

    @property
    def copy(self) -> PostgresTables:
        """The rows of the copy."""
        return PostgresTables(self.connection, words_of)

    async def prepare(self) -> None:
        """Index the words."""
        await index_copy(self.connection)

    async def finish(self, given: HandOver) -> None:
        """Make the copy a log. Removals are kept until the server that had it has wiped them out of its indexes."""
        follow_buckets(self.directory.vectors)
        follower = follower_name(self.directory.follower)
        await finish_copy(self.connection, given.position.sequence, given.last_id, follower)


@asynccontextmanager
async def open_source(database: Database) -> AsyncIterator[DatabaseSource]:
    """Open the log of a database. Servers that still run on it wait with their writes until the move is over.

    Raises:
        MigrationError: there is nothing to move.
        LogVersionError: it is of another version.
        one of the database's errors.
    """
    async with _alone(database) as connection:
        condition = await condition_of(connection)
        if condition in {Condition.EMPTY, Condition.UNFINISHED}:
            raise MigrationError(_NOTHING if condition is Condition.EMPTY else _COPY)
        await lock_out_writers(connection)
        yield DatabaseSource(connection, was_moved=condition is Condition.MOVED)


@asynccontextmanager
async def open_target(
    database: Database, log: LogPosition, directory: DataDirectory, *, may_begin: bool
) -> AsyncIterator[DatabaseTarget]:
    """Open a database for a log, or the unfinished copy of it that is there.

    Args:
        database: which.
        log: which log. A copy that was begun when the log was not as far is of no use, and begun anew.
        directory: of the server whose log it is.
        may_begin: whether there may be nothing of it yet.

    Raises:
        MigrationError: something else is there.
        LogUnusableError, LogVersionError: the database will not do.
        one of the database's errors.
    """
    async with _alone(database) as connection:
        if not await is_marked(connection):
            await bring_forward(database)
        condition = await condition_of(connection)
        if condition in {Condition.IN_USE, Condition.MOVED}:
            raise MigrationError(_IN_USE if condition is Condition.IN_USE else _WAS_MOVED)
        if condition is Condition.EMPTY and not may_begin:
            raise MigrationError(ALREADY)
        target = DatabaseTarget(connection, directory)
        found = await target.copy.position()
        if condition is Condition.UNFINISHED and found.identity != log.identity:
            raise MigrationError(_OTHER_COPY)
        if condition is Condition.EMPTY or found != log:
            await begin_copy(connection, log)
        yield target


@asynccontextmanager
async def _alone(database: Database) -> AsyncIterator[Connection]:
    connection = await database.connect()
    try:
        if not await take(connection):
            raise MigrationError(_NOT_ALONE)
        yield connection
    finally:
        connection.terminate()
