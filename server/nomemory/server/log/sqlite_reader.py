"""Reads the message log from SQLite.

Its methods answer at once, without suspending, but for those that walk through all that a user ever said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from nomemory.server.log.protocol import (
    Around,
    ConversationSummary,
    LogCounts,
    Position,
    Surroundings,
    UserCount,
)
from nomemory.server.log.sqlite_rows import SqliteRows
from nomemory.server.log.sqlite_scans import SqliteScans
from nomemory.server.log.sqlite_schema import log_id
from nomemory.server.message import EVERYTHING, Filter, LoggedMessage
from nomemory.server.sqlite_users import users_condition

_OLDER = "user_id=? AND (ts, message_id) < (?, ?) ORDER BY ts DESC, message_id DESC LIMIT ?"
_NEWER = "user_id=? AND (ts, message_id) > (?, ?) ORDER BY ts, message_id LIMIT ?"
_ANCHOR = "SELECT ts, wire FROM messages INDEXED BY messages_by_id WHERE user_id=? AND message_id=?"


class SqliteLogReader:
    """A read-only connection to the log; implements `LogReader`. Belongs to the thread that made it."""

    def __init__(self, path: Path) -> None:
        self._rows = SqliteRows(path)
        self._connection = self._rows.connection
        self._scans = SqliteScans(path)

    async def log_id(self) -> str:
        """Return the name of this log."""
        return log_id(self._connection)

    async def sequence(self) -> int:
        """Return the sequence of the latest change."""
        return self._rows.sequence()

    async def user_sequence(self, user_id: str) -> int:
        """Return the sequence of the latest change to this user's messages."""
        row = self._connection.execute("SELECT latest_seq FROM users WHERE user_id=?", (user_id,)).fetchone()
        return int(row[0]) if row else 0

    async def counts(self, user_id: str | None) -> LogCounts:
        """Count messages and users, of one user or of all."""
        narrowed, values = ("", ()) if user_id is None else (" WHERE user_id=?", (user_id,))
        row = self._connection.execute(
            f"SELECT ifnull(max(latest_seq), 0), ifnull(sum(messages), 0), count(nullif(messages, 0)) "  # noqa: S608
            f"FROM users{narrowed}",
            values,
        ).fetchone()
        return LogCounts(*row)

    async def pending(self, after: int, user_id: str | None) -> int:
        """Count the messages with `sequence > after`, of one user or of all."""
        row = self._connection.execute(
            "SELECT count(*) FROM messages INDEXED BY messages_by_seq WHERE seq > ?1 AND user_id = ifnull(?2, user_id)",
            (after, user_id),
        ).fetchone()
        return int(row[0])

    async def page(
        self, user_id: str, narrowed: Filter, *, before: Position | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned`, newest first, strictly before a position."""
        return self._rows.messages(*_stretch(user_id, narrowed, before, pinned, limit, oldest_first=False))

    async def wires(
        self,
        user_id: str,
        narrowed: Filter,
        *,
        after: Position | None,
        pinned: int,
        limit: int,
        oldest_first: bool = False,
    ) -> list[bytes]:
        """Return what `page` gives as the bytes of ChatMessages, strictly after a position in either order."""
        return self._rows.wires(*_stretch(user_id, narrowed, after, pinned, limit, oldest_first=oldest_first))

    async def count(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages that a filter admits, as of one moment."""
        conditions, values = _conditions(user_id, narrowed)
        rows = await self._scans.rows(
            f"SELECT count(*) FROM messages WHERE {' AND '.join(conditions)}",  # noqa: S608 - the text is ours
            values,
        )
        return int(rows[0][0])

    async def conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, the latest first, as far as versions with `sequence <= pinned` go."""
        conditions, values = _conditions(user_id, EVERYTHING)
        # The + keeps SQLite from the conversations' index: there it would have to look up each message's sequence.
        conditions += ["+conversation_id <> ''", "seq <= ?"]
        rows = await self._scans.rows(
            f"SELECT conversation_id, min(ts), max(ts), count(*) FROM messages WHERE {' AND '.join(conditions)} "  # noqa: S608 - as above
            "GROUP BY +conversation_id ORDER BY max(ts) DESC, conversation_id DESC",
            [*values, pinned],
        )
        return list(map(ConversationSummary._make, rows))

    async def users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users who have messages, by id: those after a text whose ids begin with a prefix."""
        condition, values = users_condition(None, prefix)
        rows = self._connection.execute(
            f"SELECT user_id, messages FROM users WHERE user_id > ? AND messages > 0 AND {condition} "  # noqa: S608 - ours
            "ORDER BY user_id LIMIT ?",
            (after, *values, limit),
        )
        return list(map(UserCount._make, rows))

    async def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids; those that do not exist are not in the answer."""
        return self._rows.by_ids(user_id, message_ids)

    async def by_sequences(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Resolve versions; those that are gone, or are another user's, are not in the answer."""
        found = self._rows.messages(
            "seq IN (SELECT value FROM json_each(?)) AND +user_id=?", (orjson.dumps(list(sequences)), user_id)
        )
        return {message.sequence: message for message in found}

    async def around(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Around]:
        """Return, for each anchor, up to so many messages right before and right after it."""
        return [self._around(anchor, before, after) for anchor in anchors]

    async def surroundings(self, user_id: str, message_id: str, before: int, after: int) -> Surroundings | None:
        """Return a message and up to so many right before and right after it; None if there is no such message."""
        anchor = self._connection.execute(_ANCHOR, (user_id, message_id)).fetchone()
        if anchor is None:
            return None
        ts_us, wire = anchor
        older = self._rows.wires(_OLDER, (user_id, ts_us, message_id, before))
        newer = self._rows.wires(_NEWER, (user_id, ts_us, message_id, after))
        return Surroundings(older[::-1], wire, newer)

    async def close(self) -> None:
        """Close the connections."""
        await self._scans.close()
        self._rows.close()

    def _around(self, anchor: LoggedMessage, before: int, after: int) -> Around:
        place = (anchor.user_id, anchor.ts_us, anchor.message_id)
        older = self._rows.messages(_OLDER, (*place, before))
        newer = self._rows.messages(_NEWER, (*place, after))
        return Around(older[::-1], newer)


def _stretch(
    user_id: str, narrowed: Filter, after: Position | None, pinned: int, limit: int, *, oldest_first: bool
) -> tuple[str, Sequence[object]]:
    """Return the condition of a page, with its order and its limit, and the values for it."""
    past, direction = (">", "ASC") if oldest_first else ("<", "DESC")
    conditions, values = _conditions(user_id, _beyond(narrowed, after, oldest_first=oldest_first))
    conditions.append("seq <= ?")
    values.append(pinned)
    if after is not None:
        conditions.append(f"(ts, message_id) {past} (?, ?)")
        values += [after.ts_us, after.message_id]
    order = f"ORDER BY ts {direction}, message_id {direction} LIMIT ?"
    return f"{' AND '.join(conditions)} {order}", (*values, limit)


def _beyond(narrowed: Filter, after: Position | None, *, oldest_first: bool) -> Filter:
    """Drop the bound that a position makes needless: given both, SQLite starts at the wrong one."""
    if after is None:
        return narrowed
    since_us, until_us = narrowed.since_us, narrowed.until_us
    if oldest_first and since_us is not None and after.ts_us >= since_us:
        return replace(narrowed, since_us=None)
    if not oldest_first and until_us is not None and after.ts_us < until_us:
        return replace(narrowed, until_us=None)
    return narrowed


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
