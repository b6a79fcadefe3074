"""A log's database as what is moved: its rows, and how it is marked meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from nomemory.server import wire
from nomemory.server.log.move import MESSAGES, MOVED, MOVED_STATE, TABLES, UNFINISHED, Condition, Row, Table
from nomemory.server.log.position import FeedPosition, LogIdentity, LogPosition, bucket_of
from nomemory.server.log.postgres.changes import ReadWords
from nomemory.server.log.postgres.rows import numbered
from nomemory.server.log.postgres.schema import SCHEMA_VERSION
from nomemory.server.log.protocol import LogVersionError
from nomemory.server.log.writing import NUMBER_BYTES

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

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
_WORDS: Final = "CREATE INDEX IF NOT EXISTS messages_by_words ON messages USING gin (keys) WITH (fastupdate = off)"
"""As the schema has it."""
_ALONE: Final = "SELECT pg_try_advisory_lock(hashtextextended('nomemory migrate ' || current_schema(), 0))"
_OLD: Final = (
    "the log in the database has schema {version}, and this version knows {known}: start a server of this version"
)
_IS_EMPTY: Final = """
SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM followers)
  AND NOT EXISTS (SELECT 1 FROM buckets WHERE sequence > 0 OR last_id <> '')
"""
_MARK: Final = "INSERT INTO schema_versions (version) VALUES ($1) ON CONFLICT DO NOTHING"
_POSITION: Final = "SELECT log_id, epoch, (SELECT max(sequence) FROM buckets) FROM log_state"
_PRESENT: Final = """
SELECT sequence FROM messages JOIN unnest($1::smallint[], $2::bigint[]) AS wanted(bucket, sequence)
USING (bucket, sequence)
"""
_TAKE_TIMES: Final = 50
_TAKE_AGAIN_S: Final = 0.1
_SEQUENCE: Final = MESSAGES.columns.index("sequence")
_WIRE: Final = MESSAGES.columns.index("wire")


async def take(connection: Connection) -> bool:
    """Keep every other move out of a database for as long as this connection lasts; return whether that worked.

    The database may see a little late that a move before this one was interrupted: this waits for it.
    """
    for _ in range(_TAKE_TIMES - 1):
        if await connection.fetchval(_ALONE):
            return True
        await asyncio.sleep(_TAKE_AGAIN_S)
    return bool(await connection.fetchval(_ALONE))


async def is_marked(connection: Connection) -> bool:
    """Return whether a database has an unfinished copy, or a log that was moved."""
    return bool(await _versions(connection) & {UNFINISHED, MOVED})


async def condition_of(connection: Connection) -> Condition:
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


async def begin_copy(connection: Connection, log: LogPosition) -> None:
    """Make an empty database, or a copy that is of no use, the empty copy of a log, durably.

    There is no index of words until the copy is complete: one that is made of all rows at once costs less.
    """
    async with connection.transaction():
        await connection.execute(f"TRUNCATE {', '.join(table.name for table in TABLES)}")
        await connection.execute("UPDATE log_state SET log_id = $1, epoch = $2", *log.identity)
        await connection.execute("UPDATE buckets SET sequence = $1", log.sequence)
        await connection.execute(_MARK, UNFINISHED)
        await connection.execute("DROP INDEX IF EXISTS messages_by_words")


async def index_copy(connection: Connection) -> None:
    """Index the words, and have PostgreSQL learn what the tables hold."""
    await connection.execute(_WORDS)
    await connection.execute(f"VACUUM (ANALYZE) {', '.join(table.name for table in TABLES)}")


async def finish_copy(connection: Connection, sequence: int, last_id: int, follower: str) -> None:
    """Make a complete copy a log, durably.

    Args:
        connection: to the copy.
        sequence: of the log's latest change.
        last_id: the number of the last id that it made; 0: it made none.
        follower: the name of a server whose indexes have followed the log.
    """
    last = last_id.to_bytes(NUMBER_BYTES, "big") if last_id else b""
    async with connection.transaction():
        await connection.execute("UPDATE buckets SET last_id = $1", last)
        await connection.execute("SELECT setval('log_sequence', greatest($1, 1), $1 > 0)", sequence)
        await connection.execute("INSERT INTO followers (name) VALUES ($1) ON CONFLICT DO NOTHING", follower)
        await connection.execute("DELETE FROM schema_versions WHERE version = $1", UNFINISHED)


async def lock_out_writers(connection: Connection) -> None:
    """Wait until nobody writes, and have everybody wait who wants to, until this connection's transaction ends."""
    await connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
    await connection.execute(_LOCK)


async def mark_moved(connection: Connection) -> None:
    """Refuse every write to a log from now on, and every start on it. Call it within a transaction."""
    await connection.execute(_REFUSE)
    for table in _OF_LOG:
        await connection.execute(_REFUSED.format(table=table))
    await connection.execute(_MARK, MOVED)


async def reached(connection: Connection) -> FeedPosition:
    """Return the sequence of the latest change of each bucket."""
    rows = await connection.fetch("SELECT sequence FROM buckets ORDER BY bucket")
    return FeedPosition(tuple(sequence for (sequence,) in rows))


async def follows(connection: Connection, follower: str) -> bool:
    """Return whether removals are kept until a server has wiped them out of its indexes."""
    return bool(await connection.fetchval("SELECT 1 FROM followers WHERE name = $1", follower))


async def _versions(connection: Connection) -> set[int]:
    if not await connection.fetchval("SELECT to_regclass('schema_versions') IS NOT NULL"):
        return set()
    return {version for (version,) in await connection.fetch("SELECT version FROM schema_versions")}


class PostgresTables:
    """The rows of a log's database; implements `LogCopy`.

    Args:
        connection: to the database. Nobody else uses it.
        read_words: reads what a row holds for search by words.

    Raises (any method): one of the database's errors.
    """

    def __init__(self, connection: Connection, read_words: ReadWords) -> None:
        self._connection = connection
        self._read_words = read_words

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change."""
        ((log_id, epoch, sequence),) = await self._connection.fetch(_POSITION)
        return LogPosition(LogIdentity(log_id, epoch), sequence)

    async def last_id(self) -> int:
        """Return the number of the last id that was made."""
        last = await self._connection.fetchval("SELECT last_id FROM buckets ORDER BY last_id DESC LIMIT 1")
        return int.from_bytes(last, "big")

    async def count(self, table: Table) -> int:
        """Return how many rows a table has."""
        return int(await self._connection.fetchval(f"SELECT count(*) FROM {table.name}"))  # noqa: S608 - ours

    async def page(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        """Return up to `limit` rows after a row, in the order of their buckets and keys."""
        key = ", ".join(("bucket", *table.key))
        place = () if after is None else (_bucket(table, after), *after[: len(table.key)])
        beyond = f"WHERE ({key}) > ({', '.join('?' * len(place))})" if place else ""
        statement = f"SELECT {', '.join(table.columns)} FROM {table.name} {beyond} ORDER BY {key} LIMIT ?"  # noqa: S608
        return [tuple(row) for row in await self._connection.fetch(numbered(statement), *place, limit)]

    async def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet."""
        columns: tuple[str, ...] = ("bucket", *table.columns)
        values = [(_bucket(table, row), *row) for row in rows]
        if table is MESSAGES:
            columns = (*columns, "keys", "tokens")
            values = [(*row, *self._read_words(wire.decode(row[1 + _WIRE]))) for row in await self._without(values)]
        places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
        statement = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({places}) ON CONFLICT DO NOTHING"  # noqa: S608
        await self._connection.executemany(statement, values)

    async def clear(self, table: Table) -> None:
        """Delete all rows of a table."""
        await self._connection.execute(f"TRUNCATE {table.name}")

    async def _without(self, rows: Sequence[Any]) -> list[Any]:
        """Return the rows of messages that are not there yet: reading words costs more than all else."""
        places = [(row[0], row[1 + _SEQUENCE]) for row in rows]
        found = await self._connection.fetch(_PRESENT, [bucket for bucket, _ in places], [place for _, place in places])
        present = {sequence for (sequence,) in found}
        return [row for row in rows if row[1 + _SEQUENCE] not in present]


def _bucket(table: Table, row: Row) -> int:
    return bucket_of(row[table.columns.index("user_id")])
