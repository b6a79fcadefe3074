"""The change feed of a PostgreSQL message log, with blocking methods for background threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nomemory.server.message import LoggedMessage
from nomemory.server.store.buckets import BUCKETS, EACH_BUCKET, IN_ANY_BUCKET, compute_bucket
from nomemory.server.store.change_feed import Change, ChangeBatch, ChangeRef, DeletedVersion, StoredVersion
from nomemory.server.store.conditions import Value
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity, LogPosition
from nomemory.server.store.postgres.connections import ERRORS, Database
from nomemory.server.store.postgres.rows import COLUMNS, number_placeholders

if TYPE_CHECKING:
    import asyncpg

Result = TypeVar("Result")

# The columns depend on the statement.
Row = Any


class DatabaseUnavailableError(ConnectionError):
    """The database is unavailable. The read can be retried.

    The error message is the SQLSTATE or the type of the database error.
    """


class LoopThread:
    """An event loop in a background thread, which runs coroutines for callers in other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres", daemon=True)
        self._thread.start()

    def run_coroutine(self, coroutine: Coroutine[None, None, Result]) -> Result:
        """Run a coroutine in the background event loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """Stop the background event loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingConnection:
    """A blocking connection that is opened on demand and reopened after an error, for one caller at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = LoopThread()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    def fetch(self, statement: str, *values: Value) -> list[Row]:
        """Execute a statement with `?` placeholders, and return all rows.

        Raises:
            DatabaseUnavailableError: the database is unavailable.
        """
        try:
            return self._thread.run_coroutine(self._fetch(number_placeholders(statement), values))
        except ERRORS as error:
            raise DatabaseUnavailableError(getattr(error, "sqlstate", None) or type(error).__name__) from error

    def close(self) -> None:
        """Close the connection."""
        self._thread.run_coroutine(self._disconnect())
        self._thread.close()

    async def _fetch(self, statement: str, values: Sequence[Value]) -> list[Row]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
        return list(await self._connection.fetch(statement, *values))

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


def run_blocking(coroutine: Coroutine[None, None, Result]) -> Result:
    """Run a coroutine in a background thread, block until it is done, and return its result."""
    with closing(LoopThread()) as thread:
        return thread.run_coroutine(coroutine)


_HAS_VECTOR: Final = (
    "EXISTS (SELECT 1 FROM embeddings AS e WHERE (e.bucket, e.user_id, e.message_id) ="
    " (messages.bucket, messages.user_id, messages.message_id))"
)
_CHANGES: Final = f"""
SELECT found.* FROM {EACH_BUCKET} CROSS JOIN LATERAL (
  (SELECT {COLUMNS}, NULL::bigint AS removed_sequence FROM messages
    WHERE bucket = each.bucket AND sequence > ? ORDER BY sequence LIMIT ?)
  UNION ALL
  (SELECT user_id, message_id, NULL, NULL, sequence, NULL, removed_sequence FROM removals
    WHERE bucket = each.bucket AND sequence > ? ORDER BY sequence LIMIT ?)
) AS found
ORDER BY sequence LIMIT ?
"""  # noqa: S608 - no user input
_TOUCHED: Final = """
SELECT wanted.bucket, found.* FROM unnest(?::smallint[], ?::bigint[], ?::bigint[]) AS wanted(bucket, after, until)
CROSS JOIN LATERAL (
  (SELECT false AS is_removal, sequence, user_id, message_id, {is_work} AS is_work FROM messages
    WHERE messages.bucket = wanted.bucket AND sequence > wanted.after AND sequence <= wanted.until
    ORDER BY sequence LIMIT ?)
  UNION ALL
  (SELECT true, sequence, user_id, message_id, true FROM removals
    WHERE removals.bucket = wanted.bucket AND sequence > wanted.after AND sequence <= wanted.until
    ORDER BY sequence LIMIT ?)
) AS found
"""
_REACHED: Final = "SELECT sequence FROM buckets ORDER BY bucket"
_POSITION: Final = "SELECT log_id, epoch, (SELECT max(sequence) FROM buckets) FROM log_state"
_GONE: Final = f"""
SELECT wanted.sequence, r.sequence, r.user_id, r.message_id
FROM unnest(?::bigint[]) AS wanted(sequence) LEFT JOIN removals AS r ON r.removed_sequence = wanted.sequence
WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.{IN_ANY_BUCKET} AND m.sequence = wanted.sequence)
"""  # noqa: S608 - as above
_OF_USER: Final = "bucket = ? AND user_id = ?"
_VERSIONS: Final = f"SELECT message_id, sequence, length(wire) FROM messages WHERE {_OF_USER} AND sequence <= ?"  # noqa: S608


_SHARE_MIN: Final = 16
"""Minimum number of changes to scan per bucket and call."""


class PostgresChangeFeed:
    """The change feed of a PostgreSQL message log (`ChangeFeed`). The content of damaged messages is omitted.

    All methods raise DatabaseUnavailableError while the database is unavailable. A failed call can be retried.
    """

    def __init__(self, database: Database, damage_registry: DamageRegistry | None = None) -> None:
        self._connection = BlockingConnection(database)
        self._damage_registry = damage_registry or DamageRegistry()

    def read_position(self) -> LogPosition:
        """Return the identity of the message log and its latest sequence number."""
        ((log_id, epoch, sequence),) = self._connection.fetch(_POSITION)
        return LogPosition(LogIdentity(log_id, epoch), sequence)

    def read_sequence(self) -> int:
        """Return the sequence number of the latest change."""
        return self.read_end_position().latest

    def read_end_position(self) -> FeedPosition:
        """Return the sequence number of the latest change of each bucket."""
        return FeedPosition(tuple(sequence for (sequence,) in self._connection.fetch(_REACHED)))

    def has_messages(self, *, caller_vectors_only: bool) -> bool:
        """Return whether the message log has a message, or, with `caller_vectors_only`, a caller-supplied vector."""
        table = "embeddings" if caller_vectors_only else "messages"
        return bool(self._connection.fetch(f"SELECT 1 FROM {table} LIMIT 1"))  # noqa: S608 - no user input

    def read_changes(self, after: int, limit: int) -> list[Change]:
        """Return up to `limit` changes from one snapshot, ordered by sequence number."""
        rows = self._connection.fetch(_CHANGES, after, limit, after, limit, limit)
        sound, damaged = self._damage_registry.split_damaged_messages(row[:-1] for row in rows if row[-1] is None)
        feed = [Change(m.sequence, m.user_id, m.message_id, stored=m) for m in sound]
        feed += [Change(*change) for change in damaged]
        feed += [
            Change(sequence, user, message, removed_sequence=removed_sequence)
            for user, message, _, _, sequence, _, removed_sequence in rows
            if removed_sequence is not None
        ]
        return sorted(feed, key=lambda change: change.sequence)

    def read_change_refs(
        self, after: FeedPosition, until: FeedPosition, limit: int, *, caller_vectors_only: bool
    ) -> ChangeBatch:
        """Return the changes after the position `after` and up to `until`, without the messages.

        Each bucket has an equal share of `limit`, but at least 16 changes.
        """
        ranges = {
            bucket: (after.get_sequence(bucket), until.get_sequence(bucket))
            for bucket in range(BUCKETS)
            if after.get_sequence(bucket) < until.get_sequence(bucket)
        }
        share = max(_SHARE_MIN, limit // max(1, len(ranges)))
        statement = _TOUCHED.format(is_work=_HAS_VECTOR if caller_vectors_only else "true")
        firsts, lasts = [first for first, _ in ranges.values()], [last for _, last in ranges.values()]
        rows = self._connection.fetch(statement, list(ranges), firsts, lasts, share, share)
        reached = _find_last_scanned_sequences(rows, share, dict(zip(ranges, lasts, strict=True)))
        entries = [ChangeRef(*row) for bucket, _, *row, is_work in rows if is_work and row[0] <= reached[bucket]]
        return ChangeBatch(entries, FeedPosition(tuple(reached.get(b, after.get_sequence(b)) for b in range(BUCKETS))))

    def read_messages(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return the current versions of a user's messages by id; unknown ids are omitted."""
        statement = f"SELECT {COLUMNS} FROM messages WHERE {_OF_USER} AND message_id = ANY(?)"  # noqa: S608 - no user input
        rows = self._connection.fetch(statement, compute_bucket(user_id), user_id, list(message_ids))
        sound, _ = self._damage_registry.split_damaged_messages(rows)
        return {message.message_id: message for message in sound}

    def list_users(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` users who have messages, in the order of their ids, starting after the id `after`."""
        statement = "SELECT user_id FROM users WHERE user_id > ? AND messages > 0 ORDER BY user_id LIMIT ?"
        return [user_id for (user_id,) in self._connection.fetch(statement, after, limit)]

    def list_versions(self, user_id: str, until: int, *, caller_vectors_only: bool) -> list[StoredVersion]:
        """Return the message versions of a user with `sequence <= until`, without their content."""
        vector_condition = _HAS_VECTOR if caller_vectors_only else "TRUE"
        statement = f"{_VERSIONS} AND {vector_condition}"
        rows = self._connection.fetch(statement, compute_bucket(user_id), user_id, until)
        return list(map(StoredVersion._make, rows))

    def read_versions(self, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Return the undamaged versions with the given sequence numbers as a dictionary, without removed versions."""
        statement = f"SELECT {COLUMNS} FROM messages WHERE {IN_ANY_BUCKET} AND sequence = ANY(?)"  # noqa: S608 - no user input
        sound, _ = self._damage_registry.split_damaged_messages(self._connection.fetch(statement, list(sequences)))
        return {message.sequence: message for message in sound}

    def find_deleted_versions(self, sequences: Sequence[int]) -> list[DeletedVersion]:
        """Return the versions with the specified sequence numbers that are no longer in the message log."""
        rows = self._connection.fetch(_GONE, list(sequences))
        return [
            DeletedVersion(sequence, None if removal[0] is None else ChangeRef(*removal)) for sequence, *removal in rows
        ]

    def read_embeddings(self, user_id: str, message_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors that callers stored with messages, by message id."""
        statement = f"SELECT message_id, vector FROM embeddings WHERE {_OF_USER} AND message_id = ANY(?)"  # noqa: S608
        rows = self._connection.fetch(statement, compute_bucket(user_id), user_id, list(message_ids))
        return {str(message_id): bytes(vector) for message_id, vector in rows}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _find_last_scanned_sequences(rows: Sequence[Row], share: int, until: Mapping[int, int]) -> dict[int, int]:
    """Return the last sequence number that was scanned in each bucket.

    A bucket was scanned up to `until`, unless it returned as many messages or removals as its share allows.
    """
    reached = dict(until)
    for (bucket, _), group in groupby(sorted(rows, key=itemgetter(0, 1, 2)), key=itemgetter(0, 1)):
        sequences = [row[2] for row in group]
        if len(sequences) == share:
            reached[bucket] = min(reached[bucket], sequences[-1])
    return reached
