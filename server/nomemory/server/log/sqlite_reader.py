"""Reads the message log from SQLite, one short statement at a time and never inside a long transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from nomemory.server.log.protocol import Change, LogCounts, Position, Surroundings, Touched
from nomemory.server.log.sqlite_schema import latest_sequence, log_id, open_for_reading
from nomemory.server.message import Filter, LoggedMessage

_ROW = "user_id, message_id, ts, seq, wire"
_OLDER = "(ts, message_id) < (?, ?) ORDER BY ts DESC, message_id DESC LIMIT ?"
_STORED = "SELECT seq, user_id, message_id FROM messages INDEXED BY messages_by_seq WHERE seq > ? AND seq <= ?"
_HAS_VECTOR = (
    "EXISTS (SELECT 1 FROM embeddings AS e WHERE (e.user_id, e.message_id) = (messages.user_id, messages.message_id))"
)
_REMOVED = "SELECT seq, user_id, message_id FROM removals WHERE seq > ? AND seq <= ?"
_ANCHOR = "SELECT ts, wire FROM messages INDEXED BY messages_by_id WHERE user_id=? AND message_id=?"
_NEWER = "(ts, message_id) > (?, ?) ORDER BY ts, message_id LIMIT ?"


class SqliteLogReader:
    """A read-only connection to the log; implements `LogReader`. Belongs to the thread that made it."""

    def __init__(self, path: Path) -> None:
        self._connection = open_for_reading(path)

    def log_id(self) -> str:
        """Return the name of this log."""
        return log_id(self._connection)

    def sequence(self) -> int:
        """Return the sequence of the latest change."""
        return latest_sequence(self._connection)

    def user_sequence(self, user_id: str) -> int:
        """Return the sequence of the latest change to this user's messages."""
        row = self._connection.execute("SELECT latest_seq FROM users WHERE user_id=?", (user_id,)).fetchone()
        return int(row[0]) if row else 0

    def counts(self, user_id: str | None) -> LogCounts:
        """Count messages and users, of one user or of all."""
        narrowed, values = ("", ()) if user_id is None else (" WHERE user_id=?", (user_id,))
        row = self._connection.execute(
            f"SELECT ifnull(max(latest_seq), 0), ifnull(sum(messages), 0), count(nullif(messages, 0)) "  # noqa: S608
            f"FROM users{narrowed}",
            values,
        ).fetchone()
        return LogCounts(*row)

    def pending(self, after: int, user_id: str | None) -> int:
        """Count the messages with `sequence > after`, of one user or of all."""
        row = self._connection.execute(
            "SELECT count(*) FROM messages INDEXED BY messages_by_seq WHERE seq > ?1 AND user_id = ifnull(?2, user_id)",
            (after, user_id),
        ).fetchone()
        return int(row[0])

    def page(
        self, user_id: str, narrowed: Filter, *, before: Position | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned`, newest first, strictly before a position."""
        return self._messages(*_newest(user_id, narrowed, before, pinned, limit))

    def wires(self, user_id: str, narrowed: Filter, *, before: Position | None, pinned: int, limit: int) -> list[bytes]:
        """Return what `page` gives as the bytes of ChatMessages."""
        return self._wires(*_newest(user_id, narrowed, before, pinned, limit))

    def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids; those that do not exist are not in the answer."""
        found = self._messages(
            "user_id=? AND message_id IN (SELECT value FROM json_each(?))",
            (user_id, orjson.dumps(list(message_ids))),
            # Left to itself SQLite walks through all that the user ever said.
            index="messages_by_id",
        )
        return {message.message_id: message for message in found}

    def by_sequences(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Resolve versions; those that are gone, or are another user's, are not in the answer."""
        found = self._messages(
            "seq IN (SELECT value FROM json_each(?)) AND +user_id=?", (orjson.dumps(list(sequences)), user_id)
        )
        return {message.sequence: message for message in found}

    def around(self, anchor: LoggedMessage, before: int, after: int) -> tuple[list[LoggedMessage], list[LoggedMessage]]:
        """Return the messages right before and right after an anchor, both oldest first."""
        place = (anchor.user_id, anchor.ts_us, anchor.message_id)
        older = self._messages(f"user_id=? AND {_OLDER}", (*place, before))
        newer = self._messages(f"user_id=? AND {_NEWER}", (*place, after))
        return older[::-1], newer

    def surroundings(self, user_id: str, message_id: str, before: int, after: int) -> Surroundings | None:
        """Return a message and up to so many right before and right after it; None if there is no such message."""
        anchor = self._connection.execute(_ANCHOR, (user_id, message_id)).fetchone()
        if anchor is None:
            return None
        ts_us, wire = anchor
        older = self._wires(f"user_id=? AND {_OLDER}", (user_id, ts_us, message_id, before))
        newer = self._wires(f"user_id=? AND {_NEWER}", (user_id, ts_us, message_id, after))
        return Surroundings(older[::-1], wire, newer)

    def changes(self, after: int, limit: int) -> list[Change]:
        """Return up to `limit` entries of the feed, read from one snapshot so that none is overtaken."""
        self._connection.execute("BEGIN")
        try:
            stored = self._messages("seq > ? ORDER BY seq LIMIT ?", (after, limit))
            removed = self._connection.execute(
                "SELECT seq, user_id, message_id, removed_seq FROM removals WHERE seq > ? ORDER BY seq LIMIT ?",
                (after, limit),
            ).fetchall()
        finally:
            self._connection.execute("COMMIT")
        feed = [Change(m.sequence, m.user_id, m.message_id, stored=m) for m in stored]
        feed += [Change(seq, user, message, removed_sequence=gone) for seq, user, message, gone in removed]
        return sorted(feed, key=lambda change: change.sequence)[:limit]

    def touched(self, after: int, until: int, *, own_vectors_only: bool) -> list[Touched]:
        """Say what the feed is about between two sequences; what is removed between the two looks comes later."""
        stored = f"{_STORED} AND {_HAS_VECTOR}" if own_vectors_only else _STORED
        rows = [row for statement in (stored, _REMOVED) for row in self._connection.execute(statement, (after, until))]
        return [Touched(*row) for row in rows]

    def embeddings(self, user_id: str, message_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the callers' own vectors of those messages that brought one."""
        rows = self._connection.execute(
            "SELECT message_id, vector FROM embeddings "
            "WHERE user_id=? AND message_id IN (SELECT value FROM json_each(?))",
            (user_id, orjson.dumps(list(message_ids))),
        )
        return dict(rows.fetchall())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _messages(self, where: str, values: Sequence[object], *, index: str = "") -> list[LoggedMessage]:
        indexed = f"INDEXED BY {index}" if index else ""
        rows: list[tuple[str, str, int, int, bytes]] = self._connection.execute(
            f"SELECT {_ROW} FROM messages {indexed} WHERE {where}",  # noqa: S608 - the text is ours, values are bound
            values,
        ).fetchall()
        return list(map(LoggedMessage._make, rows))

    def _wires(self, where: str, values: Sequence[object]) -> list[bytes]:
        rows: list[tuple[bytes]] = self._connection.execute(
            f"SELECT wire FROM messages WHERE {where}",  # noqa: S608 - as above
            values,
        ).fetchall()
        return [wire for (wire,) in rows]


def _newest(
    user_id: str, narrowed: Filter, before: Position | None, pinned: int, limit: int
) -> tuple[str, Sequence[object]]:
    """Return the condition of a page, with its order and its limit, and the values for it."""
    until_us = narrowed.until_us
    if before is not None and until_us is not None and before.ts_us < until_us:
        narrowed = replace(narrowed, until_us=None)  # the position says it; given both, SQLite starts at the wrong one
    conditions, values = _conditions(user_id, narrowed)
    conditions.append("seq <= ?")
    values.append(pinned)
    if before is not None:
        conditions.append("(ts, message_id) < (?, ?)")
        values += [before.ts_us, before.message_id]
    return f"{' AND '.join(conditions)} ORDER BY ts DESC, message_id DESC LIMIT ?", (*values, limit)


def _conditions(user_id: str, narrowed: Filter) -> tuple[list[str], list[str | int]]:
    conditions, values = ["user_id=?"], [user_id]
    clauses: list[tuple[str, str | int | None]] = [
        ("ts >= ?", narrowed.since_us),
        ("ts < ?", narrowed.until_us),
        ("role=?", None if narrowed.role is None else narrowed.role.value),
        # The second half lets SQLite prove that the partial index holds the answer.
        ("conversation_id=? AND conversation_id <> ''", narrowed.conversation_id or None),
    ]
    bound: list[str | int] = list(values)
    for condition, value in clauses:
        if value is not None:
            conditions.append(condition)
            bound.append(value)
    return conditions, bound
