"""A log in PostgreSQL as what is moved, and as where a log is moved to; and the two moves between it and a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

from nomemory.server import wire
from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.postgres.token_columns import token_columns
from nomemory.server.log.move import MOVED, MOVED_STATE, UNFINISHED, Condition
from nomemory.server.log.position import FeedPosition, LogIdentity, LogPosition
from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.erasure import follower_name
from nomemory.server.log.postgres.rows import in_buckets, numbered
from nomemory.server.log.postgres.schema import SCHEMA_VERSION, WORDS, bring_forward
from nomemory.server.log.postgres.transaction import id_bytes
from nomemory.server.log.protocol import LogVersionError
from nomemory.server.log.tables import MESSAGES, TABLES, Row, Table
from nomemory.server.maintenance import move_file
from nomemory.server.maintenance.move import ALREADY, HandOver, MigrationError, Outcome, Tell, move, refuse
from nomemory.server.vector.indexing.moved_backlog import follow_buckets
from nomemory.server.vector.shared.postgres_index import filled_of

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_NO_SOURCE: Final = {
    Condition.EMPTY: "there are no messages to move in the database",
    Condition.UNFINISHED: "the database has an unfinished copy itself: finish that move first",
}
_NO_TARGET: Final = {
    Condition.IN_USE: "there is a message log in the database already. Choose another one, or another schema in it",
    Condition.MOVED: "the database has what was moved from there once. Choose another one, or another schema in it",
}
_OTHER_COPY: Final = "the database has the unfinished copy of another log. Delete its tables, or choose another schema"
_NOT_ALONE: Final = "another migration is at work in the database"
_OLD: Final = (
    "the log in the database has schema {version}, and this version knows {known}: start a server of this version"
)

_OF_LOG: Final = (*(table.name for table in TABLES), "followers", "buckets")
_LOCK: Final = "LOCK TABLE followers, buckets IN EXCLUSIVE MODE"
"""Every write begins with the row of a bucket or of a follower: it is done, or has not begun. Reads go on."""
_REFUSE: Final = f"""
CREATE FUNCTION log_has_moved() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'this message log was moved' USING ERRCODE = '{MOVED_STATE}'; END $$
"""
_REFUSED: Final = """
CREATE TRIGGER log_has_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION log_has_moved()
"""
_ALONE: Final = """
SET lock_timeout = '5s';
SELECT pg_advisory_lock(hashtextextended('nomemory migrate ' || current_schema(), 0));
RESET lock_timeout
"""
"""The database may see a little late that a move before this one was interrupted: this waits for it."""
_IS_EMPTY: Final = """
SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM followers)
  AND NOT EXISTS (SELECT 1 FROM buckets WHERE sequence > 0 OR last_id <> '')
"""
_MARK: Final = "INSERT INTO schema_versions (version) VALUES ($1) ON CONFLICT DO NOTHING"
_POSITION: Final = "SELECT log_id, epoch, (SELECT max(sequence) FROM buckets) FROM log_state"
_WIRE: Final = MESSAGES.columns.index("wire")


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
        log = await source.position()
        async with open_target(database, log, directory, may_begin=not source.was_moved) as target:
            return await move(source, target, tell)


async def move_to_file(database: Database, directory: DataDirectory, tell: Tell) -> Outcome:
    """Move the log of a database to a data directory. The arguments and errors are those of `move_to_database`."""
    async with open_source(database, directory) as source:
        log, has_followed = await source.position(), await source.has_followed()
        may_begin = not source.was_moved
        with move_file.open_target(directory, log, has_followed=has_followed, may_begin=may_begin) as target:
            return await move(source, target, tell)


@dataclass(frozen=True, slots=True)
class LogDatabase:
    """The log of a database, or a copy that is to be one; implements `LogPlace`.

    Attributes:
        connection: to the database. Nobody else uses it.
        directory: the data directory at the other end.
        was_moved: whether it was marked before, for a copy that was not finished.

    Raises (any method): one of the database's errors.
    """

    connection: Connection
    directory: DataDirectory
    was_moved: bool = False

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change."""
        ((log_id, epoch, sequence),) = await self.connection.fetch(_POSITION)
        return LogPosition(LogIdentity(log_id, epoch), sequence)

    async def has_followed(self) -> bool:
        """Return whether removals are kept until the server of the directory has wiped them out of its indexes."""
        if not self.directory.follower.exists():
            return False
        name = follower_name(self.directory.follower)
        return bool(await self.connection.fetchval("SELECT 1 FROM followers WHERE name = $1", name))

    async def count(self, table: Table) -> int:
        """Return how many rows a table has."""
        return int(await self.connection.fetchval(f"SELECT count(*) FROM {table.name}"))  # noqa: S608 - ours

    async def page(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        """Return up to `limit` rows after a row, in the order of their buckets and keys."""
        key = ", ".join(("bucket", *table.key))
        place = () if after is None else in_buckets(table, [after])[0][: 1 + len(table.key)]
        beyond = f"WHERE ({key}) > ({', '.join('?' * len(place))})" if place else ""
        statement = f"SELECT {', '.join(table.columns)} FROM {table.name} {beyond} ORDER BY {key} LIMIT ?"  # noqa: S608
        return [tuple(row) for row in await self.connection.fetch(numbered(statement), *place, limit)]

    async def handed_over(self) -> HandOver:
        """Return what the target has to know."""
        log = await self.position()
        rows = await self.connection.fetch("SELECT sequence, last_id FROM buckets ORDER BY bucket")
        last_id = int.from_bytes(max(last for _, last in rows), "big")
        reached = FeedPosition(tuple(sequence for sequence, _ in rows))
        return HandOver(log, last_id, reached, await filled_of(self.connection, log.identity.name))

    async def mark_moved(self) -> None:
        """Mark the database, and answer the writes that were kept waiting that the log was moved."""
        if not self.was_moved:
            await self.connection.execute(_REFUSE)
            for table in _OF_LOG:
                await self.connection.execute(_REFUSED.format(table=table))
            await self.connection.execute(_MARK, MOVED)
        await self.connection.execute("COMMIT")

    async def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows."""
        columns: tuple[str, ...] = ("bucket", *table.columns)
        values = in_buckets(table, rows)
        if table is MESSAGES:
            columns = (*columns, "keys", "tokens")
            values = [(*row, *token_columns(wire.decode(row[1 + _WIRE]))) for row in values]
        places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
        statement = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 - ours
        await self.connection.executemany(statement, values)

    async def clear(self, *tables: Table) -> None:
        """Delete all rows of some tables."""
        await self.connection.execute(f"TRUNCATE {', '.join(table.name for table in tables)}")

    async def prepare(self) -> None:
        """Index the words, and have PostgreSQL learn what the tables hold."""
        await self.connection.execute(WORDS)
        await self.connection.execute(f"VACUUM (ANALYZE) {', '.join(table.name for table in TABLES)}")

    async def finish(self, given: HandOver) -> None:
        """Make the copy a log. Removals are kept until the server that had it has wiped them out of its indexes."""
        follow_buckets(self.directory.vectors)
        follower = follower_name(self.directory.follower)
        async with self.connection.transaction():
            await self.connection.execute("UPDATE buckets SET last_id = $1", id_bytes(given.last_id))
            sequence = given.position.sequence
            await self.connection.execute("SELECT setval('log_sequence', greatest($1, 1), $1 > 0)", sequence)
            await self.connection.execute("INSERT INTO followers (name) VALUES ($1) ON CONFLICT DO NOTHING", follower)
            await self.connection.execute("DELETE FROM schema_versions WHERE version = $1", UNFINISHED)


@asynccontextmanager
async def open_source(database: Database, directory: DataDirectory) -> AsyncIterator[LogDatabase]:
    """Open the log of a database. Servers that still run on it wait with their writes until the move is over.

    Raises:
        MigrationError: there is nothing to move.
        LogVersionError: it is of another version.
        one of the database's errors.
    """
    async with _alone(database) as connection:
        condition = await _condition_of(connection)
        refuse(condition, _NO_SOURCE, directory)
        await connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        await connection.execute(_LOCK)
        yield LogDatabase(connection, directory, was_moved=condition is Condition.MOVED)


@asynccontextmanager
async def open_target(
    database: Database, log: LogPosition, directory: DataDirectory, *, may_begin: bool
) -> AsyncIterator[LogDatabase]:
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
        if not await _versions(connection) & {UNFINISHED, MOVED}:
            await bring_forward(database)
        condition = await _condition_of(connection)
        refuse(condition, _NO_TARGET, directory)
        if condition is Condition.EMPTY and not may_begin:
            raise MigrationError(ALREADY)
        target = LogDatabase(connection, directory)
        found = await target.position()
        if condition is Condition.UNFINISHED and found.identity != log.identity:
            raise MigrationError(_OTHER_COPY)
        if condition is Condition.EMPTY or found != log:
            await begin_copy(target, log)
        yield target


async def begin_copy(target: LogDatabase, log: LogPosition) -> None:
    """Make an empty database, or a copy that is of no use, the empty copy of a log, durably.

    There is no index of words until the copy is complete: one that is made of all rows at once costs less.
    """
    connection = target.connection
    async with connection.transaction():
        await target.clear(*TABLES)
        await connection.execute("UPDATE log_state SET log_id = $1, epoch = $2", *log.identity)
        await connection.execute("UPDATE buckets SET sequence = $1", log.sequence)
        await connection.execute(_MARK, UNFINISHED)
        await connection.execute("DROP INDEX IF EXISTS messages_by_words")


@asynccontextmanager
async def _alone(database: Database) -> AsyncIterator[Connection]:
    """Open a connection, and keep every other move out of the database for as long as it lasts."""
    connection = await database.connect()
    try:
        try:
            await connection.execute(_ALONE)
        except asyncpg.LockNotAvailableError:
            raise MigrationError(_NOT_ALONE) from None
        yield connection
    finally:
        connection.terminate()


async def _condition_of(connection: Connection) -> Condition:
    """Return what the log of a database is.

    Raises:
        LogVersionError: it is of another version.
    """
    versions = await _versions(connection)
    version = max(versions - {UNFINISHED, MOVED}, default=0)
    if version not in {0, SCHEMA_VERSION}:
        raise LogVersionError(_OLD.format(version=version, known=SCHEMA_VERSION))
    if MOVED in versions:
        return Condition.MOVED
    if UNFINISHED in versions:
        return Condition.UNFINISHED
    is_empty = not version or await connection.fetchval(_IS_EMPTY)
    return Condition.EMPTY if is_empty else Condition.IN_USE


async def _versions(connection: Connection) -> set[int]:
    if not await connection.fetchval("SELECT to_regclass('schema_versions') IS NOT NULL"):
        return set()
    return {version for (version,) in await connection.fetch("SELECT version FROM schema_versions")}
