"""A log's database as what is moved: its rows, and what it says of itself meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from nomemory.server import wire
from nomemory.server.log.feed import StoredVersion
from nomemory.server.log.move import (
    MOVED,
    MOVED_STATE,
    UNFINISHED,
    Condition,
    Piece,
    StoredMessage,
    StoredRemoval,
    StoredRequest,
    Totals,
    UserCounts,
    UserState,
    VersionKey,
)
from nomemory.server.log.position import IN_ALL, FeedPosition, LogIdentity, LogPosition, bucket_of
from nomemory.server.log.postgres import statements
from nomemory.server.log.postgres.changes import ReadWords, Row, columns
from nomemory.server.log.postgres.rows import numbered
from nomemory.server.log.postgres.schema import SCHEMA_VERSION
from nomemory.server.log.protocol import LogVersionError
from nomemory.server.log.writing import NUMBER_BYTES
from nomemory.server.message import Message
from nomemory.server.metadata_mark import stored_mark

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]
    import asyncpg

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
_SCHEMA_VERSIONS: Final = "SELECT version FROM schema_versions"
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
    return {version for (version,) in await connection.fetch(_SCHEMA_VERSIONS)}


_OF: Final = "WHERE {table}.bucket = u.bucket AND {table}.user_id = u.user_id"


def _count(table: str) -> str:
    return f"(SELECT count(*) FROM {table} {_OF.format(table=table)})"  # noqa: S608 - ours


_STATE: Final = f"u.user_id, u.latest_sequence, u.messages, {_count('requests')}"
_PAGE: Final = "FROM users AS u WHERE user_id > ? ORDER BY user_id LIMIT ?"
_USERS: Final = f"SELECT {_STATE} {_PAGE}"
_COUNTS: Final = f"SELECT {_STATE}, {_count('messages')}, {_count('embeddings')}, {_count('metadata_entries')} {_PAGE}"
_OF_USERS: Final = "unnest(?::smallint[], ?::text[]) AS wanted(bucket, user_id)"
_VERSIONS: Final = f"""
SELECT m.user_id, m.message_id, m.sequence, length(m.wire) FROM {_OF_USERS} JOIN messages AS m USING (bucket, user_id)
ORDER BY m.user_id, m.ts_us, m.message_id
"""  # noqa: S608 - as above
_MESSAGES: Final = """
SELECT m.user_id, m.ts_us, m.message_id, m.sequence, m.role, m.conversation_id, m.wire, m.expire_us, m.checksum,
  e.vector
FROM unnest(?::smallint[], ?::bigint[]) AS wanted(bucket, sequence) JOIN messages AS m USING (bucket, sequence)
LEFT JOIN embeddings AS e USING (bucket, user_id, message_id)
"""
_REQUESTS: Final = f"""
SELECT r.user_id, r.digest, r.first_id, r.size FROM {_OF_USERS} JOIN requests AS r USING (bucket, user_id)
"""  # noqa: S608 - as above
_REMOVALS: Final = f"""
SELECT sequence, user_id, message_id, removed_sequence FROM removals WHERE {IN_ALL} AND sequence = ANY(?)
"""  # noqa: S608 - as above
_FORGET_REMOVALS: Final = f"DELETE FROM removals WHERE {IN_ALL} AND sequence = ANY(?)"  # noqa: S608 - as above
_TOTALS: Final = """
SELECT count(*), coalesce(sum(sequence), 0)::bigint, (SELECT count(*) FROM embeddings),
  (SELECT count(*) FROM metadata_entries), (SELECT count(*) FROM users), (SELECT count(*) FROM requests),
  (SELECT count(*) FROM removals)
FROM messages
"""
_POSITION: Final = "SELECT log_id, epoch, (SELECT max(sequence) FROM buckets) FROM log_state"
_BEGIN_USERS: Final = f"""
INSERT INTO users (bucket, user_id, latest_sequence, messages) SELECT bucket, user_id, 0, 0 FROM {_OF_USERS}
ON CONFLICT DO NOTHING
"""  # noqa: S608 - as above
_SETTLE_USERS: Final = """
INSERT INTO users (bucket, user_id, latest_sequence, messages)
SELECT * FROM unnest(?::smallint[], ?::text[], ?::bigint[], ?::bigint[])
ON CONFLICT (bucket, user_id) DO UPDATE SET latest_sequence = excluded.latest_sequence, messages = excluded.messages
"""
_FORGET_REQUESTS: Final = """
DELETE FROM requests AS r USING unnest(?::smallint[], ?::text[], ?::bytea[]) AS gone(bucket, user_id, digest)
WHERE (r.bucket, r.user_id, r.digest) = (gone.bucket, gone.user_id, gone.digest)
"""
_OF_A_USER: Final = ("messages", "embeddings", "metadata_entries", "requests", "users")


class PostgresTables:
    """Uses a connection, which nobody else uses meanwhile.

    Args:
        connection: to the log.
        read_words: reads what a row holds for search by words.

    Raises (any method): one of the database's errors.
    """

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], read_words: ReadWords) -> None:
        self._connection = connection
        self._read_words = read_words

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change."""
        ((log_id, epoch, sequence),) = await self._fetch(_POSITION)
        return LogPosition(LogIdentity(log_id, epoch), sequence)

    async def last_id(self) -> int:
        """Return the number of the last id that was made."""
        ((last,),) = await self._fetch("SELECT last_id FROM buckets ORDER BY last_id DESC LIMIT 1")
        return int.from_bytes(last, "big")

    async def users(self, after: str, limit: int) -> list[UserState]:
        """Return users in order of their ids, beyond one."""
        return [UserState(*row) for row in await self._fetch(_USERS, after, limit)]

    async def versions(self, user_ids: Sequence[str]) -> dict[str, list[StoredVersion]]:
        """Return what versions each of some users has."""
        rows = await self._fetch(_VERSIONS, *_keys(user_ids))
        found = {user: [StoredVersion(*row[1:]) for row in some] for user, some in groupby(rows, itemgetter(0))}
        return {user: found.get(user, []) for user in user_ids}

    async def messages(self, wanted: Sequence[VersionKey]) -> list[StoredMessage]:
        """Return versions; those that are gone are not in the answer."""
        places = columns([(bucket_of(user), sequence) for user, sequence in wanted], 2)
        return [StoredMessage(*row) for row in await self._fetch(_MESSAGES, *places)]

    async def requests(self, user_ids: Sequence[str]) -> list[StoredRequest]:
        """Return what is remembered of some users' requests."""
        return [StoredRequest(*row) for row in await self._fetch(_REQUESTS, *_keys(user_ids))]

    async def removal_sequences(self) -> list[int]:
        """Return the sequences of all removals."""
        return [sequence for (sequence,) in await self._fetch("SELECT sequence FROM removals")]

    async def removals(self, sequences: Sequence[int]) -> list[StoredRemoval]:
        """Return removals; those that are forgotten are not in the answer."""
        return [StoredRemoval(*row) for row in await self._fetch(_REMOVALS, list(sequences))]

    async def counts(self, after: str, limit: int) -> list[UserCounts]:
        """Return what `users` does, with the numbers of rows that there are."""
        return [UserCounts(UserState(*row[:4]), *row[4:]) for row in await self._fetch(_COUNTS, after, limit)]

    async def totals(self) -> Totals:
        """Return how many rows there are."""
        (row,) = await self._fetch(_TOTALS)
        return Totals(*row)

    async def put(self, piece: Piece) -> None:
        """Change what belongs to users, in one commit."""
        async with self._connection.transaction():
            await self._fetch(_BEGIN_USERS, *_keys(piece.begun))
            if piece.gone:
                await self._fetch(statements.REMOVE, *_columns(piece.gone, 2))
            await self._fetch(_FORGET_REQUESTS, *_columns([one[:2] for one in piece.forgotten], 2))
            await self._add_messages(piece.messages)
            await self._copy("requests", ("bucket", *StoredRequest._fields), _with_buckets(piece.requests))
            await self._fetch(_SETTLE_USERS, *_columns([state[:3] for state in piece.settled], 3))

    async def drop_users(self, user_ids: Sequence[str]) -> None:
        """Delete all rows of users."""
        async with self._connection.transaction():
            for table in _OF_A_USER:
                statement = f"DELETE FROM {table} AS t USING {_OF_USERS} WHERE (t.bucket, t.user_id) = (wanted.bucket, wanted.user_id)"  # noqa: E501, S608
                await self._fetch(statement, *_keys(user_ids))

    async def put_removals(self, gone: Sequence[int], new: Sequence[StoredRemoval]) -> None:
        """Delete removals by their sequences, and add others."""
        rows = [(bucket_of(one.user_id), *one) for one in new]
        async with self._connection.transaction():
            await self._fetch(_FORGET_REMOVALS, list(gone))
            await self._copy("removals", ("bucket", *StoredRemoval._fields), rows)

    async def _fetch(self, statement: str, *values: Any) -> list[Any]:  # noqa: ANN401 - as the statement says
        return list(await self._connection.fetch(numbered(statement), *values))

    async def _copy(self, table: str, names: Sequence[str], rows: Sequence[Row]) -> None:
        if rows:
            await self._connection.copy_records_to_table(table, records=rows, columns=list(names))

    async def _add_messages(self, messages: Sequence[StoredMessage]) -> None:
        read = [(row, wire.decode(row.wire)) for row in messages]
        await self._copy("messages", statements.MESSAGE_COLUMNS, [self._row(*one) for one in read])
        vectors = [(bucket_of(m.user_id), m.user_id, m.message_id, m.vector) for m in messages if m.vector is not None]
        await self._copy("embeddings", ("bucket", "user_id", "message_id", "vector"), vectors)
        entries = [entry for _, message in read for entry in _entries(message)]
        await self._copy("metadata_entries", ("bucket", "user_id", "mark", "ts_us", "message_id"), entries)

    def _row(self, row: StoredMessage, message: Message) -> Row:
        words = self._read_words(message)
        return (
            bucket_of(row.user_id),
            row.user_id,
            row.ts_us,
            row.message_id,
            row.sequence,
            row.expire_us,
            row.checksum,
            row.role,
            row.conversation_id,
            row.wire,
            words.keys,
            words.tokens,
        )


def _entries(message: Message) -> Iterable[Row]:
    place = bucket_of(message.user_id), message.user_id
    return ((*place, stored_mark(entry), message.ts_us, message.message_id) for entry in message.metadata.items())


def _keys(user_ids: Sequence[str]) -> list[list[object]]:
    return _columns([(user,) for user in user_ids], 1)


def _with_buckets(rows: Iterable[Sequence[Any]]) -> list[Row]:
    """Return rows that begin with a user's id, with the user's bucket before it."""
    return [(bucket_of(row[0]), *row) for row in rows]


def _columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[object]]:
    return columns(_with_buckets(rows), width + 1)
