"""A log in PostgreSQL as what is moved, and as where a log is moved to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.postgres.words import words_of
from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.move import Condition
from nomemory.server.log.position import LogIdentity
from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.erasure import follower_name
from nomemory.server.log.postgres.migration import bring_forward
from nomemory.server.log.postgres.move import (
    PostgresTables,
    begin_copy,
    condition_of,
    finish_copy,
    follows,
    is_marked,
    lock_out_writers,
    mark_moved,
    reached,
    take,
    tidy_copy,
)
from nomemory.server.log.postgres.reader import PostgresLogReader
from nomemory.server.log.protocol import LogReader
from nomemory.server.maintenance.move import ALREADY, HandOver, MigrationError
from nomemory.server.vector.indexing.moved_backlog import follow_buckets
from nomemory.server.vector.shared.postgres_index import filled_of

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_NOTHING: Final = "there are no messages to move in the database"
_COPY: Final = "the database has an unfinished copy itself: finish it with --switch"
_IN_USE: Final = "there is a message log in the database already. Choose another database, or another schema in it"
_WAS_MOVED: Final = "the database has what was moved from there once. Choose another database, or another schema in it"
_OTHER_COPY: Final = "the database has the unfinished copy of another log. Delete its tables, or choose another schema"
_NOT_ALONE: Final = "another migration is at work in the database"


class DatabaseSource:
    """The log of a database; implements `Source`. `open_source` makes it."""

    def __init__(self, database: Database, connection: Connection, *, was_moved: bool) -> None:
        self._database = database
        self._connection = connection
        self._was_moved = was_moved
        self._tables = PostgresTables(connection, words_of)

    @property
    def tables(self) -> PostgresTables:
        """Its rows."""
        return self._tables

    @property
    def was_moved(self) -> bool:
        """Whether it was switched off before."""
        return self._was_moved

    async def follows(self, follower: str) -> bool:
        """Return whether removals are kept until a server has wiped them out of its indexes."""
        return await follows(self._connection, follower)

    def reader(self, lifetimes: Lifetimes) -> LogReader:
        """Open it as a server reads it."""
        return PostgresLogReader(self._database, lifetimes)

    def refuse_running(self) -> None:
        """Do nothing: whoever writes is kept waiting, and refused from then on."""

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Keep every server from writing."""
        async with self._connection.transaction(isolation="read_committed"):
            await lock_out_writers(self._connection)
            yield

    async def handed_over(self) -> HandOver:
        """Return what the target has to know."""
        log = await self._tables.position()
        shared = await filled_of(self._connection, log.identity.name)
        return HandOver(log, await self._tables.last_id(), await reached(self._connection), shared)

    async def mark_moved(self) -> None:
        """Have no server serve it any more."""
        await mark_moved(self._connection)


class DatabaseTarget:
    """A database that gets a log; implements `Target`. `open_target` makes it.

    Args:
        database: which.
        connection: to it.
        directory: of the server whose log it was.
    """

    def __init__(self, database: Database, connection: Connection, directory: DataDirectory) -> None:
        self._database = database
        self._connection = connection
        self._directory = directory
        self._copy = PostgresTables(connection, words_of)

    @property
    def copy(self) -> PostgresTables:
        """The rows of the copy."""
        return self._copy

    def reader(self, lifetimes: Lifetimes) -> LogReader:
        """Open the copy as a server reads it."""
        return PostgresLogReader(self._database, lifetimes)

    def refuse_running(self) -> None:
        """Do nothing: no server starts on an unfinished copy."""

    async def tidy(self) -> None:
        """Index the words."""
        await tidy_copy(self._connection)

    async def finish(self, given: HandOver) -> None:
        """Make the copy a log. Removals are kept until the server that had it has wiped them out of its indexes."""
        with self._directory.taken():
            follow_buckets(self._directory.vectors)
            follower = follower_name(self._directory.follower)
            await finish_copy(self._connection, given.position.sequence, given.last_id, follower)


@asynccontextmanager
async def open_source(database: Database) -> AsyncIterator[DatabaseSource]:
    """Open the log of a database.

    Raises:
        MigrationError: there is nothing to move.
        LogVersionError: it is of another version.
        one of the database's errors.
    """
    async with _alone(database) as connection:
        condition = await condition_of(connection)
        if condition in {Condition.EMPTY, Condition.UNFINISHED}:
            raise MigrationError(_NOTHING if condition is Condition.EMPTY else _COPY)
        yield DatabaseSource(database, connection, was_moved=condition is Condition.MOVED)


@asynccontextmanager
async def open_target(
    database: Database, log: LogIdentity, directory: DataDirectory, *, may_begin: bool
) -> AsyncIterator[DatabaseTarget]:
    """Open a database for a log, or the unfinished copy of it that is there.

    Args:
        database: which.
        log: which log.
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
        if condition is Condition.EMPTY:
            if not may_begin:
                raise MigrationError(ALREADY)
            await begin_copy(connection, log)
        target = DatabaseTarget(database, connection, directory)
        if (await target.copy.position()).identity != log:
            raise MigrationError(_OTHER_COPY)
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
