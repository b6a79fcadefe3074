"""Reads the message log from SQLite.

Short statements run on the event loop, which costs less than a thread. Statements that return many rows, or that may
scan all messages of a user, run in a pool of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import orjson

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.store.conditions import Clause, Expiry, Value, joined, unbounded
from nomemory.server.store.damage import LogDamage
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity
from nomemory.server.store.results import (
    Around,
    ConversationSummary,
    FirstPage,
    LogCounts,
    Position,
    Surroundings,
    UserCount,
)
from nomemory.server.store.retention import Lifetimes
from nomemory.server.store.sqlite.conditions import BY_ENTRY, SQLITE, rarest_first
from nomemory.server.store.sqlite.row_threads import SqliteRowThreads
from nomemory.server.store.sqlite.rows import BY_ID, SqliteRows
from nomemory.server.store.sqlite.schema import identity
from nomemory.server.store.sqlite_users import users_condition

_OLDER = "user_id=? AND (ts, message_id) < (?, ?) ORDER BY ts DESC, message_id DESC LIMIT ?"
_NEWER = "user_id=? AND (ts, message_id) > (?, ?) ORDER BY ts, message_id LIMIT ?"
_COUNTS = """
SELECT ifnull(max(latest_seq), 0), ifnull(sum(messages - ifnull(gone, 0)), 0),
  count(nullif(messages - ifnull(gone, 0), 0))
FROM users LEFT JOIN (SELECT user_id, count(*) AS gone FROM ({gone}) GROUP BY user_id) USING (user_id)
"""
_CONVERSATIONS = """
SELECT conversation_id, min(ts), max(ts), count(*) FROM messages WHERE {where}
GROUP BY +conversation_id ORDER BY max(ts) DESC, conversation_id DESC
"""
_USERS = """
SELECT user_id, messages - ifnull(gone, 0)
FROM users LEFT JOIN (SELECT user_id, count(*) AS gone FROM ({gone}) GROUP BY user_id) USING (user_id)
WHERE user_id > ? AND messages > ifnull(gone, 0) AND {condition} ORDER BY user_id LIMIT ?
"""
_SHORT_ROWS: Final = 100
"""Most rows that a statement on the event loop returns. With their checks they take about half a millisecond."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Page:
    """SQL clauses for one page of a user's messages. `where` includes the order and the limit.

    Attributes:
        is_long: whether to run it in a thread: the page is large, or no index serves the filter.
    """

    source: str
    where: str
    values: Sequence[Value]
    is_long: bool


class SqliteLogReader:
    """Read-only connections to the log; implements `LogReader`. Belongs to the event loop that made it.

    Args:
        path: the database file.
        lifetimes: what has expired is not read.
        damage: told of damage, in the thread that finds it.
        threads: run long statements; the caller closes them before the reader. None: the reader has one of its own.
    """

    def __init__(
        self,
        path: Path,
        lifetimes: Lifetimes | None = None,
        damage: LogDamage | None = None,
        threads: ReadThreads | None = None,
    ) -> None:
        self._expiry = Expiry(SQLITE, lifetimes or Lifetimes())
        self._damage = damage or LogDamage()
        connect = partial(SqliteRows, path, self._expiry, self._damage)
        self._rows = connect()
        self._threads = threads or ReadThreads(1)
        self._owns_threads = threads is None
        self._long = SqliteRowThreads(self._threads, connect)

    async def identity(self) -> LogIdentity:
        """Return which log this is."""
        return identity(self._rows.connection)

    async def sequence(self) -> int:
        """Return the sequence of the latest change."""
        return self._rows.sequence()

    async def reached(self) -> FeedPosition:
        """Return the sequence of the latest change, in the only bucket."""
        return FeedPosition.at(self._rows.sequence())

    async def user_sequence(self, user_id: str) -> int:
        """Return the sequence of the latest change to this user's messages."""
        rows = self._rows.fetch("SELECT latest_seq FROM users WHERE user_id=?", (user_id,))
        return int(rows[0][0]) if rows else 0

    async def counts(self, user_id: str | None, prefix: str = "") -> LogCounts:
        """Count messages and users, of one user or of all whose ids begin with a prefix."""
        gone, values = self._expiry.gone(user_id)
        condition, of_users = users_condition(user_id, prefix)
        (row,) = self._rows.fetch(f"{_COUNTS.format(gone=gone)} WHERE {condition}", (*values, *of_users))
        counts = LogCounts(*row)
        everybody = user_id is None and not prefix  # of users of whom nothing is left there is no row
        return replace(counts, sequence=self._rows.sequence()) if everybody else counts

    async def pending(self, after: FeedPosition, user_id: str | None, prefix: str = "") -> int:
        """Count the messages that came after a position, of one user or of all whose ids begin with a prefix."""
        condition, values = users_condition(user_id, prefix)
        rows = self._rows.fetch(
            f"SELECT count(*) FROM messages INDEXED BY messages_by_seq WHERE seq > ? AND {condition}",  # noqa: S608 - ours
            (after.latest, *values),
        )
        return int(rows[0][0])

    async def page(
        self, user_id: str, narrowed: Filter, *, before: Position | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned`, newest first, strictly before a position."""
        page = self._page(user_id, narrowed, before, pinned, limit, oldest_first=False)
        return await self._run(
            lambda rows: rows.messages(user_id, page.where, page.values, source=page.source), is_long=page.is_long
        )

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
        """Return what `page` returns as the bytes of ChatMessages, strictly after a position in either order."""
        page = self._page(user_id, narrowed, after, pinned, limit, oldest_first=oldest_first)
        return await self._run(
            lambda rows: rows.wires(user_id, page.where, page.values, source=page.source), is_long=page.is_long
        )

    async def first_wires(self, user_id: str, narrowed: Filter, *, limit: int, oldest_first: bool = False) -> FirstPage:
        """Return what `wires` returns of the beginning of a listing, and what pins the rest of it."""
        pinned = await self.user_sequence(user_id)
        found = await self.wires(user_id, narrowed, after=None, pinned=pinned, limit=limit, oldest_first=oldest_first)
        return FirstPage(pinned, found)

    async def count(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages that a filter admits, as of one moment."""
        where, values = joined([*SQLITE.admitted(user_id, narrowed), self._expiry.living()])
        statement = f"SELECT count(*) FROM messages WHERE {where}"  # noqa: S608 - ours
        rows = await self._long.run(lambda rows: rows.fetch(statement, values))
        return int(rows[0][0])

    async def conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, the latest first, as far as versions with `sequence <= pinned` go."""
        # The + keeps SQLite from the conversations' index: there it would have to look up each message's sequence.
        of_pin = Clause("+conversation_id <> '' AND seq <= ?", (pinned,))
        where, values = joined([SQLITE.of_user(user_id), of_pin, self._expiry.living()])
        statement = _CONVERSATIONS.format(where=where)
        rows = await self._long.run(lambda rows: rows.fetch(statement, values))
        return list(map(ConversationSummary._make, rows))

    async def users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users who have messages, by id: those after a text whose ids begin with a prefix."""
        gone, moments = self._expiry.gone(None)
        condition, values = users_condition(None, prefix)
        statement = _USERS.format(gone=gone, condition=condition)
        rows = await self._long.run(lambda rows: rows.fetch(statement, (*moments, after, *values, limit)))
        return list(map(UserCount._make, rows))

    async def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids; those that do not exist are not in the answer."""
        return self._rows.by_ids(user_id, message_ids)

    async def by_sequences(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Resolve versions; those that are gone, or are another user's, are not in the answer."""
        where = "seq IN (SELECT value FROM json_each(?)) AND +user_id=?"
        values = (orjson.dumps(list(sequences)), user_id)
        messages = await self._run(
            lambda rows: rows.messages(user_id, where, values), is_long=len(sequences) > _SHORT_ROWS
        )
        return {message.sequence: message for message in messages}

    async def around(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Around]:
        """Return, for each anchor, up to so many messages right before and right after it."""
        if not anchors:
            return []
        user_id = anchors[0].user_id
        places = [(user_id, anchor.ts_us, anchor.message_id) for anchor in anchors]

        def read(rows: SqliteRows) -> list[Around]:
            older = rows.each(user_id, _OLDER, [(*place, before) for place in places])
            newer = rows.each(user_id, _NEWER, [(*place, after) for place in places])
            return [Around(earlier[::-1], later) for earlier, later in zip(older, newer, strict=True)]

        return await self._run(read, is_long=len(anchors) * (before + after) > _SHORT_ROWS)

    async def surroundings(self, user_id: str, message_id: str, before: int, after: int) -> Surroundings | None:
        """Return a message and up to so many right before and right after it; None if there is no such message."""
        found = self._rows.messages(user_id, "user_id=? AND message_id=?", (user_id, message_id), source=BY_ID)
        if not found:
            return None
        (anchor,) = found
        older = self._rows.wires(user_id, _OLDER, (user_id, anchor.ts_us, message_id, before))
        newer = self._rows.wires(user_id, _NEWER, (user_id, anchor.ts_us, message_id, after))
        return Surroundings(older[::-1], anchor.wire, newer)

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_threads:
            await self._threads.close()
        self._long.close()
        self._rows.close()

    async def _run(self, read: Callable[[SqliteRows], _Result], *, is_long: bool) -> _Result:
        return await self._long.run(read) if is_long else read(self._rows)

    def _page(
        self,
        user_id: str,
        narrowed: Filter,
        after: Position | None,
        pinned: int,
        limit: int,
        *,
        oldest_first: bool,
    ) -> _Page:
        direction = "ASC" if oldest_first else "DESC"
        source, of_metadata = self._by_metadata(user_id, narrowed)
        some = SQLITE.of_filter(unbounded(narrowed, after, oldest_first=oldest_first))
        further = SQLITE.beyond(after, oldest_first=oldest_first)
        where, values = joined([SQLITE.of_user(user_id), *some, *of_metadata, Clause("seq <= ?", (pinned,)), *further])
        order = f"ORDER BY ts {direction}, message_id {direction} LIMIT ?"
        indexed = len(narrowed.metadata) + bool(narrowed.conversation_id)
        is_scan = narrowed.role is not None or bool(narrowed.exclude_conversation_ids) or indexed > 1
        return _Page(source, f"{where} {order}", (*values, limit), is_scan or limit > _SHORT_ROWS)

    def _by_metadata(self, user_id: str, narrowed: Filter) -> tuple[str, list[Clause]]:
        """Return where the messages with a filter's metadata are read from, and under which conditions.

        The rarest entry leads to them, unless there is a conversation, of which there are fewer yet.
        """
        if not narrowed.metadata:
            return "messages", []
        with self._damage.reading():
            marks = rarest_first(self._rows.connection, user_id, narrowed.metadata)
        if narrowed.conversation_id:
            return "messages", list(map(SQLITE.has, marks))
        return BY_ENTRY, [Clause("mark = ?", marks[:1]), *map(SQLITE.has, marks[1:])]
