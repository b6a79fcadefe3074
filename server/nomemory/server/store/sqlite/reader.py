"""Read the message log from SQLite.

Short statements run on the event loop, because a thread switch would take longer. Statements that return many rows or
may scan all messages of a user run in a thread pool.
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
from nomemory.server.store.conditions import Clause, ExpiryConditions, Value, drop_redundant_bound, join_clauses
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity
from nomemory.server.store.results import (
    ConversationSummary,
    EncodedFirstPage,
    EncodedNeighbors,
    LogCounts,
    MessagePosition,
    Neighbors,
    UserCount,
)
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.conditions import BY_ENTRY, SQLITE, sort_by_frequency
from nomemory.server.store.sqlite.row_threads import SqliteRowThreads
from nomemory.server.store.sqlite.rows import BY_ID, SqliteRows
from nomemory.server.store.sqlite.schema import read_identity
from nomemory.server.store.sqlite_users import build_users_condition

_OLDER = "user_id=? AND (ts, message_id) < (?, ?) ORDER BY ts DESC, message_id DESC LIMIT ?"
_NEWER = "user_id=? AND (ts, message_id) > (?, ?) ORDER BY ts, message_id LIMIT ?"
_COUNTS = """
SELECT ifnull(max(latest_seq), 0), ifnull(sum(messages - ifnull(gone, 0)), 0),
  count(nullif(messages - ifnull(gone, 0), 0))
FROM users LEFT JOIN (SELECT user_id, count(*) AS gone FROM ({expired}) GROUP BY user_id) USING (user_id)
"""
_CONVERSATIONS = """
SELECT conversation_id, min(ts), max(ts), count(*) FROM messages WHERE {where}
GROUP BY +conversation_id ORDER BY max(ts) DESC, conversation_id DESC
"""
_USERS = """
SELECT user_id, messages - ifnull(gone, 0)
FROM users LEFT JOIN (SELECT user_id, count(*) AS gone FROM ({expired}) GROUP BY user_id) USING (user_id)
WHERE user_id > ? AND messages > ifnull(gone, 0) AND {condition} ORDER BY user_id LIMIT ?
"""
_SHORT_ROWS: Final = 100
"""Maximum number of rows of a statement on the event loop. Reading them takes about half a millisecond."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _PageQuery:
    """The query for one page of a user's messages. `where` includes ORDER BY and LIMIT.

    Attributes:
        is_long: whether to run the query in a thread, because the page is large or no index supports the filter.
    """

    source: str
    where: str
    values: Sequence[Value]
    is_long: bool


class SqliteLogReader:
    """Reads a SQLite message log (`LogReader`). An instance belongs to one event loop.

    Args:
        retention: the retention policy, by which expired messages are hidden.
        threads: the thread pool for long statements, which the caller must close before the reader; None to create a
            pool of one thread.
    """

    def __init__(
        self,
        path: Path,
        retention: RetentionPolicy | None = None,
        damage_registry: DamageRegistry | None = None,
        threads: ReadThreads | None = None,
    ) -> None:
        self._expiry = ExpiryConditions(SQLITE, retention or RetentionPolicy())
        self._damage_registry = damage_registry or DamageRegistry()
        connect = partial(SqliteRows, path, self._expiry, self._damage_registry)
        self._rows = connect()
        self._threads = threads or ReadThreads(1)
        self._owns_threads = threads is None
        self._long = SqliteRowThreads(self._threads, connect)

    async def read_identity(self) -> LogIdentity:
        """Return the identity of the message log."""
        return read_identity(self._rows.connection)

    async def read_sequence(self) -> int:
        """Return the sequence number of the latest change."""
        return self._rows.read_sequence()

    async def read_end_position(self) -> FeedPosition:
        """Return the sequence number of the latest change, as the position of the only bucket."""
        return FeedPosition.from_sequence(self._rows.read_sequence())

    async def read_user_sequence(self, user_id: str) -> int:
        """Return the sequence number of the latest change to a user's messages."""
        rows = self._rows.fetch("SELECT latest_seq FROM users WHERE user_id=?", (user_id,))
        return int(rows[0][0]) if rows else 0

    async def count_users_and_messages(self, user_id: str | None, prefix: str = "") -> LogCounts:
        """Count the messages of one user, or of all users whose ids begin with a prefix."""
        expired, values = self._expiry.build_expired_keys_query(user_id)
        condition, user_values = build_users_condition(user_id, prefix)
        statement = f"{_COUNTS.format(expired=expired)} WHERE {condition}"
        (row,) = await self._run(lambda rows: rows.fetch(statement, (*values, *user_values)), is_long=user_id is None)
        counts = LogCounts(*row)
        all_users = user_id is None and not prefix  # users without messages may have no row
        return replace(counts, sequence=self._rows.read_sequence()) if all_users else counts

    async def count_pending(self, after: FeedPosition, user_id: str | None, prefix: str = "") -> int:
        """Count the messages after a feed position, of one user or of all users whose ids begin with a prefix."""
        condition, values = build_users_condition(user_id, prefix)
        statement = f"SELECT count(*) FROM messages INDEXED BY messages_by_seq WHERE seq > ? AND {condition}"  # noqa: S608 - no user input
        ((count,),) = await self._long.run(lambda rows: rows.fetch(statement, (after.latest, *values)))
        return int(count)

    async def read_page(
        self, user_id: str, message_filter: Filter, *, before: MessagePosition | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned` that precede `before` in time order, newest first."""
        page = self._fetch_page(user_id, message_filter, before, pinned, limit, oldest_first=False)
        return await self._run(
            lambda rows: rows.read_messages(user_id, page.where, page.values, source=page.source), is_long=page.is_long
        )

    async def read_encoded_page(
        self,
        user_id: str,
        message_filter: Filter,
        *,
        after: MessagePosition | None,
        pinned: int,
        limit: int,
        oldest_first: bool = False,
    ) -> list[bytes]:
        """Return up to `limit` encoded ChatMessages with `sequence <= pinned` that follow the position `after`."""
        page = self._fetch_page(user_id, message_filter, after, pinned, limit, oldest_first=oldest_first)
        return await self._run(
            lambda rows: rows.read_encoded_messages(user_id, page.where, page.values, source=page.source),
            is_long=page.is_long,
        )

    async def read_first_encoded_page(
        self, user_id: str, message_filter: Filter, *, limit: int, oldest_first: bool = False
    ) -> EncodedFirstPage:
        """Return the first page, and the snapshot sequence number of the following pages."""
        pinned = await self.read_user_sequence(user_id)
        messages = await self.read_encoded_page(
            user_id, message_filter, after=None, pinned=pinned, limit=limit, oldest_first=oldest_first
        )
        return EncodedFirstPage(pinned, messages)

    async def count_messages(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages that match a filter."""
        where, values = join_clauses(
            [*SQLITE.build_match_clauses(user_id, message_filter), self._expiry.build_unexpired_clause()]
        )
        statement = f"SELECT count(*) FROM messages WHERE {where}"  # noqa: S608 - no user input
        rows = await self._long.run(lambda rows: rows.fetch(statement, values))
        return int(rows[0][0])

    async def list_conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, the latest first, counting only versions with `sequence <= pinned`."""
        # The + prevents the use of the index on conversations, which would need a lookup of `seq` for each row.
        pin = Clause("+conversation_id <> '' AND seq <= ?", (pinned,))
        where, values = join_clauses([SQLITE.of_user(user_id), pin, self._expiry.build_unexpired_clause()])
        statement = _CONVERSATIONS.format(where=where)
        rows = await self._long.run(lambda rows: rows.fetch(statement, values))
        return list(map(ConversationSummary._make, rows))

    async def list_users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users who have messages, in the order of their ids, starting after the id `after`."""
        expired, expiry_values = self._expiry.build_expired_keys_query(None)
        condition, values = build_users_condition(None, prefix)
        statement = _USERS.format(expired=expired, condition=condition)
        rows = await self._long.run(lambda rows: rows.fetch(statement, (*expiry_values, after, *values, limit)))
        return list(map(UserCount._make, rows))

    async def read_messages(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return messages of a user by id; unknown ids are omitted."""
        return await self._run(
            lambda rows: rows.read_messages_by_ids(user_id, message_ids), is_long=len(message_ids) > _SHORT_ROWS
        )

    async def read_versions(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Return a user's versions with the given sequence numbers as a dictionary; removed versions are omitted."""
        where = "seq IN (SELECT value FROM json_each(?)) AND +user_id=?"
        values = (orjson.dumps(list(sequences)), user_id)
        messages = await self._run(
            lambda rows: rows.read_messages(user_id, where, values), is_long=len(sequences) > _SHORT_ROWS
        )
        return {message.sequence: message for message in messages}

    async def read_neighbors(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Neighbors]:
        """Return up to `before` messages before and up to `after` messages after each anchor."""
        if not anchors:
            return []
        user_id = anchors[0].user_id
        positions = [(user_id, anchor.ts_us, anchor.message_id) for anchor in anchors]

        def read(rows: SqliteRows) -> list[Neighbors]:
            older = rows.read_messages_of_queries(user_id, _OLDER, [(*position, before) for position in positions])
            newer = rows.read_messages_of_queries(user_id, _NEWER, [(*position, after) for position in positions])
            return [Neighbors(earlier[::-1], later) for earlier, later in zip(older, newer, strict=True)]

        return await self._run(read, is_long=len(anchors) * (before + after) > _SHORT_ROWS)

    async def read_encoded_neighbors(
        self, user_id: str, message_id: str, before: int, after: int
    ) -> EncodedNeighbors | None:
        """Return a message with its neighbors, or None if the message does not exist."""

        def read(rows: SqliteRows) -> EncodedNeighbors | None:
            anchors = rows.read_messages(user_id, "user_id=? AND message_id=?", (user_id, message_id), source=BY_ID)
            if not anchors:
                return None
            (anchor,) = anchors
            older = rows.read_encoded_messages(user_id, _OLDER, (user_id, anchor.ts_us, message_id, before))
            newer = rows.read_encoded_messages(user_id, _NEWER, (user_id, anchor.ts_us, message_id, after))
            return EncodedNeighbors(older[::-1], anchor.wire, newer)

        return await self._run(read, is_long=before + after > _SHORT_ROWS)

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_threads:
            await self._threads.close()
        self._long.close()
        self._rows.close()

    async def _run(self, read: Callable[[SqliteRows], _Result], *, is_long: bool) -> _Result:
        return await self._long.run(read) if is_long else read(self._rows)

    def _fetch_page(
        self,
        user_id: str,
        message_filter: Filter,
        after: MessagePosition | None,
        pinned: int,
        limit: int,
        *,
        oldest_first: bool,
    ) -> _PageQuery:
        direction = "ASC" if oldest_first else "DESC"
        source, metadata_clauses = self._build_metadata_source(user_id, message_filter)
        filter_clauses = SQLITE.build_filter_clauses(
            drop_redundant_bound(message_filter, after, oldest_first=oldest_first)
        )
        position_clauses = SQLITE.build_position_clauses(after, oldest_first=oldest_first)
        where, values = join_clauses(
            [
                SQLITE.of_user(user_id),
                *filter_clauses,
                *metadata_clauses,
                Clause("seq <= ?", (pinned,)),
                *position_clauses,
            ]
        )
        order = f"ORDER BY ts {direction}, message_id {direction} LIMIT ?"
        indexed_count = len(message_filter.metadata) + bool(message_filter.conversation_id)
        has_unindexed = message_filter.role is not None or bool(message_filter.exclude_conversation_ids)
        is_scan = has_unindexed or indexed_count > 1
        return _PageQuery(source, f"{where} {order}", (*values, limit), is_scan or limit > _SHORT_ROWS)

    def _build_metadata_source(self, user_id: str, message_filter: Filter) -> tuple[str, list[Clause]]:
        """Return the FROM clause and the conditions that select messages by the metadata of a filter.

        The query reads the rarest metadata entry first, unless the filter names a conversation, which usually selects
        fewer messages.
        """
        if not message_filter.metadata:
            return "messages", []
        with self._damage_registry.translate_errors():
            hashes = sort_by_frequency(self._rows.connection, user_id, message_filter.metadata)
        if message_filter.conversation_id:
            return "messages", list(map(SQLITE.build_metadata_clause, hashes))
        return BY_ENTRY, [Clause("mark = ?", hashes[:1]), *map(SQLITE.build_metadata_clause, hashes[1:])]
