"""The rows of a log in SQLite, as they are moved: implements `LogCopy`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import orjson

from nomemory.server import wire
from nomemory.server.log.identity import LogPosition
from nomemory.server.log.protocol import StoredVersion
from nomemory.server.log.sqlite_metadata import TABLE, Place, forget_entries, rows_of
from nomemory.server.log.sqlite_schema import LAST_ID, meta, position
from nomemory.server.log.tables import (
    Piece,
    StoredMessage,
    StoredRemoval,
    StoredRequest,
    Totals,
    UserCounts,
    UserState,
    VersionKey,
)

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
