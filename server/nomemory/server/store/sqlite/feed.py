"""The change feed of a SQLite message log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from nomemory.server.message import LoggedMessage
from nomemory.server.store.change_feed import Change, ChangeBatch, ChangeRef, DeletedVersion, StoredVersion
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogPosition
from nomemory.server.store.sqlite.rows import SqliteRows
from nomemory.server.store.sqlite.schema import read_position

_BETWEEN = "seq > ? AND seq <= ?"
_STORED = f"SELECT seq, user_id, message_id FROM messages INDEXED BY messages_by_seq WHERE {_BETWEEN}"  # noqa: S608
_HAS_VECTOR = (
    "EXISTS (SELECT 1 FROM embeddings AS e WHERE (e.user_id, e.message_id) = (messages.user_id, messages.message_id))"
)
_GONE = """
SELECT wanted.value, r.seq, r.user_id, r.message_id
FROM json_each(?) AS wanted LEFT JOIN removals AS r ON r.removed_seq = wanted.value
WHERE NOT EXISTS (SELECT 1 FROM messages WHERE seq = wanted.value)
"""
_REMOVED = f"SELECT seq, user_id, message_id FROM removals WHERE {_BETWEEN}"  # noqa: S608


class SqliteChangeFeed:
    """The change feed of a SQLite message log (`ChangeFeed`), with its own connection.

    The content of damaged messages is omitted.
    """

    def __init__(self, path: Path, damage_registry: DamageRegistry | None = None) -> None:
        self._rows = SqliteRows(path, damage_registry=damage_registry)

    def read_position(self) -> LogPosition:
        """Return the identity of the message log and its latest sequence number."""
        return read_position(self._rows.connection)

    def read_sequence(self) -> int:
        """Return the sequence number of the latest change."""
        return self._rows.read_sequence()

    def read_end_position(self) -> FeedPosition:
        """Return the sequence number of the latest change, as the position of the only bucket."""
        return FeedPosition.from_sequence(self._rows.read_sequence())

    def has_messages(self, *, caller_vectors_only: bool) -> bool:
        """Return whether the message log has a message, or, with `caller_vectors_only`, a caller-supplied vector."""
        table = "embeddings" if caller_vectors_only else "messages"
        return self._rows.connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None  # noqa: S608

    def read_changes(self, after: int, limit: int) -> list[Change]:
        """Return up to `limit` changes from one snapshot, ordered by sequence number."""
        connection = self._rows.connection
        connection.execute("BEGIN")
        try:
            stored, damaged = self._rows.split_damaged_messages("seq > ? ORDER BY seq LIMIT ?", (after, limit))
            removed = connection.execute(
                "SELECT seq, user_id, message_id, removed_seq FROM removals WHERE seq > ? ORDER BY seq LIMIT ?",
                (after, limit),
            ).fetchall()
        finally:
            connection.execute("COMMIT")
        feed = [Change(m.sequence, m.user_id, m.message_id, stored=m) for m in stored]
        feed += [Change(*change) for change in damaged]
        feed += [
            Change(seq, user, message, removed_sequence=removed_seq) for seq, user, message, removed_seq in removed
        ]
        return sorted(feed, key=lambda change: change.sequence)[:limit]

    def read_change_refs(
        self, after: FeedPosition, until: FeedPosition, limit: int, *, caller_vectors_only: bool
    ) -> ChangeBatch:
        """Return the changes after the position `after` and up to `until`, without the messages.

        A removal that is committed between the two queries of the method is returned by a later call.
        """
        stored = f"{_STORED} AND {_HAS_VECTOR}" if caller_vectors_only else _STORED
        first, last = after.latest, min(until.latest, after.latest + limit)
        rows = [
            row for statement in (stored, _REMOVED) for row in self._rows.connection.execute(statement, (first, last))
        ]
        return ChangeBatch([ChangeRef(*row) for row in rows], FeedPosition.from_sequence(last))

    def read_messages(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return the current versions of a user's messages by id; unknown ids are omitted."""
        return self._rows.read_undamaged_messages(user_id, message_ids)

    def list_users(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` users who have messages, in the order of their ids, starting after the id `after`."""
        statement = "SELECT user_id FROM users WHERE user_id > ? AND messages > 0 ORDER BY user_id LIMIT ?"
        return [user_id for (user_id,) in self._rows.connection.execute(statement, (after, limit))]

    def list_versions(self, user_id: str, until: int, *, caller_vectors_only: bool) -> list[StoredVersion]:
        """Return the message versions of a user with `sequence <= until`, without their content."""
        vector_condition = f"AND {_HAS_VECTOR}" if caller_vectors_only else ""
        statement = (
            f"SELECT message_id, seq, length(wire) FROM messages WHERE user_id = ? AND seq <= ? {vector_condition}"  # noqa: S608
        )
        return list(map(StoredVersion._make, self._rows.connection.execute(statement, (user_id, until))))

    def read_versions(self, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Return the undamaged versions with the given sequence numbers as a dictionary, without removed versions."""
        sound, _ = self._rows.split_damaged_messages(
            "seq IN (SELECT value FROM json_each(?))", (orjson.dumps(list(sequences)),)
        )
        return {message.sequence: message for message in sound}

    def find_deleted_versions(self, sequences: Sequence[int]) -> list[DeletedVersion]:
        """Return the versions with the specified sequence numbers that are no longer in the message log."""
        rows = self._rows.connection.execute(_GONE, (orjson.dumps(list(sequences)),))
        return [
            DeletedVersion(sequence, None if removal[0] is None else ChangeRef(*removal)) for sequence, *removal in rows
        ]

    def read_embeddings(self, user_id: str, message_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors that callers stored with messages, by message id."""
        rows = self._rows.connection.execute(
            "SELECT message_id, vector FROM embeddings "
            "WHERE user_id=? AND message_id IN (SELECT value FROM json_each(?))",
            (user_id, orjson.dumps(list(message_ids))),
        )
        return dict(rows.fetchall())

    def close(self) -> None:
        """Close the connection."""
        self._rows.close()
