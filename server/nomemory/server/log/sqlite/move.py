"""A log's file as what is moved: its rows, and what it says of itself meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from nomemory.server import wire
from nomemory.server.log.feed import StoredVersion
from nomemory.server.log.move import (
    MOVED,
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
from nomemory.server.log.position import LogIdentity, LogPosition
from nomemory.server.log.protocol import LogUnusableError
from nomemory.server.log.sqlite.conditions import TABLE, Place, forget_entries, rows_of
from nomemory.server.log.sqlite.erasure import locked
from nomemory.server.log.sqlite.schema import (
    EPOCH,
    FORGOTTEN,
    LAST_ID,
    SCHEMA_VERSION,
    be_durable,
    latest_sequence,
    meta,
    open_for_writing,
    position,
)
from nomemory.server.log.sqlite.writer import TUNING

_PUT: Final = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2"
_IS_EMPTY: Final = "SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM meta WHERE key <> 'log_id')"
_OLD: Final = "{path} has schema {version}: start a server of this version on it first"


def condition_of(path: Path) -> Condition:
    """Return what a log's file is; where there is none, an empty one.

    Raises:
        LogUnusableError: it is of another version.
        sqlite3.Error: it is no log, or cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return Condition.EMPTY
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return _condition(connection, path)


def begin_copy(path: Path, log: LogIdentity) -> None:
    """Make an empty file the unfinished copy of a log, durably.

    Raises:
        LogUnusableError, LogVersionError, sqlite3.Error: it cannot be made.
    """
    with closing(open_for_writing(path)) as connection, locked(connection):
        connection.execute(_PUT, ("log_id", log.log_id))
        if log.epoch:
            connection.execute(_PUT, (EPOCH, log.epoch))
        connection.execute(f"PRAGMA user_version={UNFINISHED}")


def open_copy(path: Path) -> sqlite3.Connection:
    """Open an unfinished copy for writing."""
    connection = sqlite3.connect(path, isolation_level=None)
    be_durable(connection)
    for pragma in TUNING:
        connection.execute(pragma)
    return connection


def finish_copy(connection: sqlite3.Connection, sequence: int, last_id: int) -> None:
    """Make a complete copy a log, durably.

    Args:
        connection: to the copy.
        sequence: of the log's latest change.
        last_id: the number of the last id that it made; 0: it made none.
    """
    with locked(connection):
        if last_id:
            connection.execute(_PUT, (LAST_ID, str(last_id)))
        if latest_sequence(connection) < sequence:  # what the last changes removed is forgotten
            connection.execute(_PUT, (FORGOTTEN, str(sequence)))
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def mark_moved(path: Path) -> None:
    """Have no server start on a file any more, durably. No server may be running."""
    with closing(open_copy(path)) as connection, locked(connection):
        connection.execute(f"PRAGMA user_version={MOVED}")


def _condition(connection: sqlite3.Connection, path: Path) -> Condition:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version in {UNFINISHED, MOVED}:
        return Condition.UNFINISHED if version == UNFINISHED else Condition.MOVED
    if version != SCHEMA_VERSION:
        raise LogUnusableError(_OLD.format(path=path, version=version))
    (is_empty,) = connection.execute(_IS_EMPTY).fetchone()
    return Condition.EMPTY if is_empty else Condition.IN_USE


_STATE: Final = "u.user_id, u.latest_seq, u.messages, (SELECT count(*) FROM requests AS r WHERE r.user_id = u.user_id)"
_USERS: Final = f"SELECT {_STATE} FROM users AS u WHERE user_id > ? ORDER BY user_id LIMIT ?"  # noqa: S608 - ours
_COUNTS: Final = f"""
SELECT {_STATE}, (SELECT count(*) FROM messages AS m INDEXED BY messages_by_id WHERE m.user_id = u.user_id),
  (SELECT count(*) FROM embeddings AS e WHERE e.user_id = u.user_id),
  (SELECT count(*) FROM {TABLE} AS e WHERE e.user_id = u.user_id)
FROM users AS u WHERE user_id > ? ORDER BY user_id LIMIT ?
"""  # noqa: S608 - as above
_VERSIONS: Final = "SELECT message_id, seq, length(wire) FROM messages WHERE user_id = ? ORDER BY ts, message_id"
_MESSAGES: Final = """
SELECT m.user_id, m.ts, m.message_id, m.seq, m.role, m.conversation_id, m.wire, m.expire_us, m.crc, e.vector
FROM json_each(?) AS wanted CROSS JOIN messages AS m INDEXED BY messages_by_seq ON m.seq = wanted.value
LEFT JOIN embeddings AS e ON (e.user_id, e.message_id) = (m.user_id, m.message_id)
"""
_REQUESTS: Final = "SELECT user_id, digest, first_id, size FROM requests WHERE user_id = ?"
_REMOVALS: Final = (
    "SELECT seq, user_id, message_id, removed_seq FROM removals WHERE seq IN (SELECT value FROM json_each(?))"
)
_TOTALS: Final = f"""
SELECT (SELECT count(*) FROM messages INDEXED BY messages_by_seq),
  (SELECT ifnull(sum(seq), 0) FROM messages INDEXED BY messages_by_seq),
  (SELECT count(*) FROM embeddings), (SELECT count(*) FROM {TABLE}), (SELECT count(*) FROM users),
  (SELECT count(*) FROM requests), (SELECT count(*) FROM removals)
"""  # noqa: S608 - as above
_PLACE: Final = "SELECT user_id, ts, message_id, wire FROM messages WHERE user_id = ? AND message_id = ?"
_BEGIN_USER: Final = "INSERT INTO users VALUES (?, 0, 0) ON CONFLICT DO NOTHING"
_SETTLE_USER: Final = "INSERT OR REPLACE INTO users VALUES (?, ?, ?)"

# Any: each statement says what its columns are.
Row = tuple[Any, ...]


class SqliteTables:
    """A connection of its own to the file. What writes needs one that `open_for_writing` has made.

    Raises (any method): sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def position(self) -> LogPosition:
        """Return which log it is, and the sequence of its latest change."""
        return position(self._connection)

    async def last_id(self) -> int:
        """Return the number of the last id that was made."""
        return int(meta(self._connection, LAST_ID) or "0")

    async def users(self, after: str, limit: int) -> list[UserState]:
        """Return users in order of their ids, beyond one."""
        return list(map(UserState._make, self._rows(_USERS, after, limit)))

    async def versions(self, user_ids: Sequence[str]) -> dict[str, list[StoredVersion]]:
        """Return what versions each of some users has."""
        return {user: list(map(StoredVersion._make, self._rows(_VERSIONS, user))) for user in user_ids}

    async def messages(self, wanted: Sequence[VersionKey]) -> list[StoredMessage]:
        """Return versions; those that are gone are not in the answer."""
        sequences = orjson.dumps([sequence for _, sequence in wanted])
        return list(map(StoredMessage._make, self._rows(_MESSAGES, sequences)))

    async def requests(self, user_ids: Sequence[str]) -> list[StoredRequest]:
        """Return what is remembered of some users' requests."""
        rows = chain.from_iterable(self._rows(_REQUESTS, user) for user in user_ids)
        return list(map(StoredRequest._make, rows))

    async def removal_sequences(self) -> list[int]:
        """Return the sequences of all removals."""
        return [sequence for (sequence,) in self._rows("SELECT seq FROM removals")]

    async def removals(self, sequences: Sequence[int]) -> list[StoredRemoval]:
        """Return removals; those that are forgotten are not in the answer."""
        return list(map(StoredRemoval._make, self._rows(_REMOVALS, orjson.dumps(list(sequences)))))

    async def counts(self, after: str, limit: int) -> list[UserCounts]:
        """Return what `users` does, with the numbers of rows that there are."""
        return [UserCounts(UserState(*row[:4]), *row[4:]) for row in self._rows(_COUNTS, after, limit)]

    async def totals(self) -> Totals:
        """Return how many rows there are."""
        (row,) = self._rows(_TOTALS)
        return Totals(*row)

    async def put(self, piece: Piece) -> None:
        """Change what belongs to users, in one commit."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_BEGIN_USER, [(user,) for user in piece.begun])
            self._drop_messages(piece.gone)
            connection.executemany(
                "DELETE FROM requests WHERE user_id = ? AND digest = ?", [one[:2] for one in piece.forgotten]
            )
            self._add_messages(piece.messages)
            connection.executemany("INSERT INTO requests VALUES (?, ?, ?, ?)", piece.requests)
            connection.executemany(_SETTLE_USER, [state[:3] for state in piece.settled])

    async def drop_users(self, user_ids: Sequence[str]) -> None:
        """Delete all rows of users."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            for table in ("messages", "embeddings", TABLE, "requests", "users"):
                connection.executemany(f"DELETE FROM {table} WHERE user_id = ?", [(user,) for user in user_ids])  # noqa: S608

    async def put_removals(self, gone: Sequence[int], new: Sequence[StoredRemoval]) -> None:
        """Delete removals by their sequences, and add others."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM removals WHERE seq = ?", [(sequence,) for sequence in gone])
            connection.executemany("INSERT INTO removals VALUES (?, ?, ?, ?)", new)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, statement: str, *values: object) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def _drop_messages(self, keys: Sequence[tuple[str, str]]) -> None:
        places = [Place(*row) for key in keys for row in self._rows(_PLACE, *key)]
        forget_entries(self._connection, places)
        for table in ("messages", "embeddings"):
            self._connection.executemany(f"DELETE FROM {table} WHERE user_id = ? AND message_id = ?", keys)  # noqa: S608

    def _add_messages(self, messages: Sequence[StoredMessage]) -> None:
        execute = self._connection.executemany
        execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", [message[:9] for message in messages])
        vectors = [(one.user_id, one.message_id, one.vector) for one in messages if one.vector is not None]
        execute("INSERT INTO embeddings VALUES (?, ?, ?)", vectors)
        entries = [row for one in messages for row in rows_of(wire.decode(one.wire))]
        execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)", entries)  # noqa: S608 - ours
