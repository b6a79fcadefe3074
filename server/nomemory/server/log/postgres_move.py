"""What a log's database says of itself while it is moved: an unfinished copy, or moved elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nomemory.server.log.feed_position import FeedPosition
from nomemory.server.log.given_ids import NUMBER_BYTES
from nomemory.server.log.identity import LogIdentity
from nomemory.server.log.move_marks import MOVED, MOVED_STATE, UNFINISHED
from nomemory.server.log.postgres_conditions import numbered
from nomemory.server.log.postgres_schema import SCHEMA_VERSION
from nomemory.server.log.protocol import LogVersionError
from nomemory.server.log.tables import Condition

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_TABLES: Final = ("messages", "metadata_entries", "removals", "embeddings", "users", "followers", "requests", "buckets")
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
_VERSIONS: Final = "SELECT version FROM schema_versions"
_OLD: Final = (
    "the log in the database has schema {version}, and this version knows {known}: start a server of this version"
)
_IS_EMPTY: Final = """
SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM followers)
  AND NOT EXISTS (SELECT 1 FROM buckets WHERE sequence > 0 OR last_id <> '')
"""
_JOIN: Final = "INSERT INTO followers (name) VALUES (?) ON CONFLICT DO NOTHING"


async def take(connection: Connection) -> bool:
    """Keep every other migration out of a database for as long as this connection lasts; return whether that worked."""
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


async def begin_copy(connection: Connection, log: LogIdentity) -> None:
    """Make an empty log the unfinished copy of another, durably. Words are not looked up by an index meanwhile."""
    async with connection.transaction():
        await connection.execute("UPDATE log_state SET log_id = $1, epoch = $2", *log)
        await connection.execute("INSERT INTO schema_versions (version) VALUES ($1)", UNFINISHED)
        await connection.execute("DROP INDEX messages_by_words")


async def tidy_copy(connection: Connection) -> None:
    """Index the words, which is quicker for many rows at once, and have PostgreSQL learn what the tables hold."""
    await connection.execute(_WORDS)
    await connection.execute("VACUUM (ANALYZE) messages, metadata_entries, embeddings, removals, requests, users")


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
        await connection.execute("UPDATE buckets SET sequence = $1, last_id = $2", sequence, last)
        await connection.execute("SELECT setval('log_sequence', greatest($1, 1), $1 > 0)", sequence)
        await connection.execute(numbered(_JOIN), follower)
        await connection.execute("DELETE FROM schema_versions WHERE version = $1", UNFINISHED)


async def lock_out_writers(connection: Connection) -> None:
    """Wait until nobody writes, and have everybody wait who wants to. Call it within a transaction."""
    await connection.execute(_LOCK)


async def mark_moved(connection: Connection) -> None:
    """Refuse every write to a log from now on, and every start on it. Call it within a transaction."""
    await connection.execute(_REFUSE)
    for table in _TABLES:
        await connection.execute(_REFUSED.format(table=table))
    await connection.execute("INSERT INTO schema_versions (version) VALUES ($1)", MOVED)


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
    return {version for (version,) in await connection.fetch(_VERSIONS)}
