"""The feed of changes, read from SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from nomemory.server import wire
from nomemory.server.log.protocol import Change, Touched
from nomemory.server.log.sqlite_rows import SqliteRows
from nomemory.server.message import LoggedMessage

_BETWEEN = "seq > ? AND seq <= ?"
_STORED = f"SELECT seq, user_id, message_id FROM messages INDEXED BY messages_by_seq WHERE {_BETWEEN}"  # noqa: S608
_HAS_VECTOR = (
    "EXISTS (SELECT 1 FROM embeddings AS e WHERE (e.user_id, e.message_id) = (messages.user_id, messages.message_id))"
)
_REMOVED = f"SELECT seq, user_id, message_id FROM removals WHERE {_BETWEEN}"  # noqa: S608


class SqliteChangeFeed:
    """A read-only connection to the log; implements `ChangeFeed`."""

    def __init__(self, path: Path) -> None:
        self._rows = SqliteRows(path)

    def sequence(self) -> int:
        """Return the sequence of the latest change."""
        return self._rows.sequence()

    def is_empty(self) -> bool:
        """Return whether the log holds no message at all."""
        return self._rows.connection.execute("SELECT 1 FROM messages LIMIT 1").fetchone() is None

    def changes(self, after: int, limit: int) -> list[Change]:
        """Return up to `limit` entries of the feed, read from one snapshot so that none is overtaken."""
        connection = self._rows.connection
        connection.execute("BEGIN")
        try:
            stored = self._rows.messages("seq > ? ORDER BY seq LIMIT ?", (after, limit))
            removed = connection.execute(
                "SELECT seq, user_id, message_id, removed_seq FROM removals WHERE seq > ? ORDER BY seq LIMIT ?",
                (after, limit),
            ).fetchall()
        finally:
            connection.execute("COMMIT")
        feed = [Change(m.sequence, m.user_id, m.message_id, stored=m) for m in stored]
        feed += [Change(seq, user, message, removed_sequence=gone) for seq, user, message, gone in removed]
        return sorted(feed, key=lambda change: change.sequence)[:limit]

    def touched(self, after: int, until: int, *, own_vectors_only: bool) -> list[Touched]:
        """Return the ids in the feed between two sequences. Messages removed between the two queries come later."""
        stored = f"{_STORED} AND {_HAS_VECTOR}" if own_vectors_only else _STORED
        rows = [
            row for statement in (stored, _REMOVED) for row in self._rows.connection.execute(statement, (after, until))
        ]
        return [Touched(*row) for row in rows]

    def with_metadata(self, after: int, until: int) -> list[Touched]:
        """Return the stored messages between two sequences that have metadata."""
        stored = self._rows.messages(_BETWEEN, (after, until), source="messages INDEXED BY messages_by_seq")
        return [Touched(m.sequence, m.user_id, m.message_id) for m in stored if wire.decode(m.wire).metadata]

    def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids to the current versions; those that do not exist are not in the answer."""
        return self._rows.by_ids(user_id, message_ids)

    def by_sequences(self, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Resolve versions of any users; those that are gone are not in the answer."""
        found = self._rows.messages("seq IN (SELECT value FROM json_each(?))", (orjson.dumps(list(sequences)),))
        return {message.sequence: message for message in found}

    def embeddings(self, user_id: str, message_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the callers' own vectors of those messages that brought one."""
        rows = self._rows.connection.execute(
            "SELECT message_id, vector FROM embeddings "
            "WHERE user_id=? AND message_id IN (SELECT value FROM json_each(?))",
            (user_id, orjson.dumps(list(message_ids))),
        )
        return dict(rows.fetchall())

    def close(self) -> None:
        """Close the connection."""
        self._rows.close()
