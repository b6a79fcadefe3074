"""Read the message log from PostgreSQL, with one round trip per call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import Filter
from nomemory.server.store.buckets import BUCKETS, compute_bucket
from nomemory.server.store.conditions import Clause, ExpiryConditions, drop_redundant_bound, join_clauses
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.rows import (
    COLUMNS,
    POSTGRES,
    PostgresRows,
    build_user_clause,
    build_users_clause,
)
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

_NEWEST_FIRST: Final = "ORDER BY messages.ts_us DESC, messages.message_id DESC"
_OLDEST_FIRST: Final = "ORDER BY messages.ts_us, messages.message_id"
_ANCHOR, _BEFORE, _AFTER = range(3)

_LIVE_COUNTS: Final = """(
  SELECT bucket, user_id, latest_sequence, messages - coalesce(gone, 0) AS live FROM users LEFT JOIN
    (SELECT bucket, user_id, count(*) AS gone FROM ({expired}) AS expired GROUP BY bucket, user_id) AS g
    USING (bucket, user_id)
) AS counted WHERE {users}"""
_COUNTS: Final = f"""
SELECT (SELECT max(sequence) FROM buckets), coalesce(max(latest_sequence), 0), coalesce(sum(live), 0)::bigint,
  count(nullif(live, 0)) FROM {_LIVE_COUNTS}
"""  # noqa: S608 - no user input
_USERS: Final = f"SELECT user_id, live FROM {_LIVE_COUNTS} AND user_id > ? AND live > 0 ORDER BY user_id LIMIT ?"  # noqa: S608
_CONVERSATIONS: Final = """
SELECT conversation_id, min(ts_us), max(ts_us), count(*) FROM messages WHERE {where}
GROUP BY conversation_id ORDER BY max(ts_us) DESC, conversation_id DESC
"""
_SIDES: Final = f"""
CROSS JOIN LATERAL (
  (SELECT {_BEFORE} AS side, {COLUMNS} FROM messages
    WHERE messages.bucket = at.bucket AND messages.user_id = at.user_id
      AND (messages.ts_us, messages.message_id) < (at.ts_us, at.message_id) AND {{live}} {_NEWEST_FIRST} LIMIT ?)
  UNION ALL
  (SELECT {_AFTER}, {COLUMNS} FROM messages
    WHERE messages.bucket = at.bucket AND messages.user_id = at.user_id
      AND (messages.ts_us, messages.message_id) > (at.ts_us, at.message_id) AND {{live}} {_OLDEST_FIRST} LIMIT ?)
) AS found
"""  # noqa: S608 - no user input
"""The messages directly before and after each position `at`."""
_NEIGHBORS: Final = f"""
SELECT messages.*, {{retraction}} FROM (SELECT place::integer, found.* FROM
  unnest(?::smallint[], ?::text[], ?::bigint[], ?::text[]) WITH ORDINALITY
  AS at(bucket, user_id, ts_us, message_id, place) {_SIDES}) AS messages
"""  # noqa: S608 - as above
_ENCODED_NEIGHBORS: Final = f"""
WITH anchor AS (SELECT * FROM messages WHERE {{of_user}} AND message_id = ? AND {{live}})
SELECT side, wire, sequence, checksum, {{retraction}} FROM (
  SELECT {_ANCHOR} AS side, {COLUMNS} FROM anchor AS messages UNION ALL SELECT found.* FROM anchor AS at {_SIDES}
) AS messages
"""  # noqa: S608 - as above
_PENDING: Final = """
SELECT count(*) FROM unnest(?::smallint[], ?::bigint[]) AS wanted(of_bucket, after)
JOIN messages ON bucket = of_bucket AND sequence > after WHERE {users}
"""


class PostgresLogReader:
    """Reads a PostgreSQL message log through its own connection pool (`LogReader`).

    An instance belongs to one event loop.

    Args:
        retention: the retention policy, by which expired messages are hidden.
    """

    def __init__(
        self,
        database: Database,
        retention: RetentionPolicy | None = None,
        damage_registry: DamageRegistry | None = None,
    ) -> None:
        self._pool = database.create_pool()
        self._expiry = ExpiryConditions(POSTGRES, retention or RetentionPolicy())
        self._damage_registry = damage_registry or DamageRegistry()
        self._rows = PostgresRows(self._pool, self._expiry, self._damage_registry)

    async def read_identity(self) -> LogIdentity:
        """Return the identity of the message log."""
        ((log_id, epoch),) = await self._rows.fetch("SELECT log_id, epoch FROM log_state", ())
        return LogIdentity(log_id, epoch)

    async def read_sequence(self) -> int:
        """Return the sequence number of the latest change."""
        return (await self.read_end_position()).latest

    async def read_end_position(self) -> FeedPosition:
        """Return the sequence number of the latest change of each bucket."""
        rows = await self._rows.fetch("SELECT sequence FROM buckets ORDER BY bucket", ())
        return FeedPosition(tuple(sequence for (sequence,) in rows))

    async def read_user_sequence(self, user_id: str) -> int:
        """Return the sequence number of the latest change to a user's messages."""
        statement = "SELECT latest_sequence FROM users WHERE bucket = ? AND user_id = ?"
        rows = await self._rows.fetch(statement, (compute_bucket(user_id), user_id))
        return int(rows[0][0]) if rows else 0

    async def count_users_and_messages(self, user_id: str | None, prefix: str = "") -> LogCounts:
        """Count the messages of one user, or of all users whose ids begin with a prefix."""
        expired, users = self._expiry.build_expired_keys_query(user_id), build_users_clause(user_id, prefix)
        statement = _COUNTS.format(expired=expired.condition, users=users.condition)
        ((log_sequence, *totals),) = await self._rows.fetch(statement, (*expired.values, *users.values))
        counts = LogCounts(*map(int, totals))
        all_users = user_id is None and not prefix  # users without messages may have no row
        return replace(counts, sequence=int(log_sequence)) if all_users else counts

    async def count_pending(self, after: FeedPosition, user_id: str | None, prefix: str = "") -> int:
        """Count the messages after a feed position, of one user or of all users whose ids begin with a prefix."""
        buckets = range(BUCKETS) if user_id is None else [compute_bucket(user_id)]
        users = build_users_clause(user_id, prefix)
        statement = _PENDING.format(users=users.condition)
        values = (list(buckets), [after.get_sequence(bucket) for bucket in buckets], *users.values)
        ((pending,),) = await self._rows.fetch(statement, values)
        return int(pending)

    async def read_page(
        self, user_id: str, message_filter: Filter, *, before: MessagePosition | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned` that precede `before` in time order, newest first."""
        clauses, order = _build_page_clauses(user_id, message_filter, before, limit, oldest_first=False)
        return await self._rows.read_messages(user_id, [*clauses, _build_pin_clause(pinned)], order)

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
        clauses, order = _build_page_clauses(user_id, message_filter, after, limit, oldest_first=oldest_first)
        return await self._rows.read_encoded_messages(user_id, [*clauses, _build_pin_clause(pinned)], order)

    async def read_first_encoded_page(
        self, user_id: str, message_filter: Filter, *, limit: int, oldest_first: bool = False
    ) -> EncodedFirstPage:
        """Return the first page, and the snapshot sequence number of the following pages."""
        clauses, order = _build_page_clauses(user_id, message_filter, None, limit, oldest_first=oldest_first)
        return await self._rows.read_first_page(user_id, clauses, order)

    async def count_messages(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages that match a filter."""
        where, values = join_clauses(
            [*POSTGRES.build_match_clauses(user_id, message_filter), self._expiry.build_unexpired_clause()]
        )
        ((total,),) = await self._rows.fetch(f"SELECT count(*) FROM messages WHERE {where}", values)  # noqa: S608 - no user input
        return int(total)

    async def list_conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, the latest first, counting only versions with `sequence <= pinned`."""
        has_conversation = Clause("conversation_id <> ''")
        where, values = join_clauses(
            [
                build_user_clause(user_id),
                has_conversation,
                _build_pin_clause(pinned),
                self._expiry.build_unexpired_clause(),
            ]
        )
        rows = await self._rows.fetch(_CONVERSATIONS.format(where=where), values)
        return list(map(ConversationSummary._make, rows))

    async def list_users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users who have messages, in the order of their ids, starting after the id `after`."""
        expired, users = self._expiry.build_expired_keys_query(None), build_users_clause(None, prefix)
        statement = _USERS.format(expired=expired.condition, users=users.condition)
        rows = await self._rows.fetch(statement, (*expired.values, *users.values, after, limit))
        return list(map(UserCount._make, rows))

    async def read_messages(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return messages of a user by id; unknown ids are omitted."""
        messages = await self._rows.read_messages(
            user_id, [build_user_clause(user_id), Clause("message_id = ANY(?)", (list(message_ids),))]
        )
        return {message.message_id: message for message in messages}

    async def read_versions(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Return a user's versions with the given sequence numbers as a dictionary; removed versions are omitted."""
        messages = await self._rows.read_messages(
            user_id, [build_user_clause(user_id), Clause("sequence = ANY(?)", (list(sequences),))]
        )
        return {message.sequence: message for message in messages}

    async def read_neighbors(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Neighbors]:
        """Return up to `before` messages before and up to `after` messages after each anchor."""
        if not anchors:
            return []
        unexpired = self._expiry.build_unexpired_clause()
        retraction = self._expiry.build_retraction_expression(anchors[0].user_id, unexpired)
        buckets = [compute_bucket(anchor.user_id) for anchor in anchors]
        user_ids, message_ids, times, *_ = zip(*anchors, strict=True)
        positions = (buckets, user_ids, times, message_ids)
        values = (*retraction.values, *positions, *unexpired.values, before, *unexpired.values, after)
        statement = _NEIGHBORS.format(live=unexpired.condition, retraction=retraction.condition)
        sides: list[tuple[list[LoggedMessage], list[LoggedMessage]]] = [([], []) for _ in anchors]
        for index, side, *row in await self._rows.fetch(statement, values):
            sides[index - 1][side - _BEFORE].extend(
                self._damage_registry.verify_messages(anchors[index - 1].user_id, [row])
            )
        return [Neighbors(older[::-1], newer) for older, newer in sides]

    async def read_encoded_neighbors(
        self, user_id: str, message_id: str, before: int, after: int
    ) -> EncodedNeighbors | None:
        """Return a message with its neighbors, or None if the message does not exist."""
        unexpired, user = self._expiry.build_unexpired_clause(), build_user_clause(user_id)
        retraction = self._expiry.build_retraction_expression(user_id, unexpired)
        anchor = (*user.values, message_id, *unexpired.values)
        values = (*anchor, *retraction.values, *unexpired.values, before, *unexpired.values, after)
        statement = _ENCODED_NEIGHBORS.format(
            of_user=user.condition, live=unexpired.condition, retraction=retraction.condition
        )
        rows = await self._rows.fetch(statement, values)
        if not rows:
            return None
        encoded = self._damage_registry.verify_encoded_messages(user_id, [row[1:] for row in rows])
        sides: tuple[list[bytes], ...] = ([], [], [])
        for (side, *_), wire in zip(rows, encoded, strict=True):
            sides[side].append(wire)
        return EncodedNeighbors(sides[_BEFORE][::-1], sides[_ANCHOR][0], sides[_AFTER])

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()


def _build_page_clauses(
    user_id: str, message_filter: Filter, after: MessagePosition | None, limit: int, *, oldest_first: bool
) -> tuple[list[Clause], Clause]:
    """Return the conditions of a page of messages, and its ORDER BY and LIMIT clauses."""
    filter_clauses = POSTGRES.build_match_clauses(
        user_id, drop_redundant_bound(message_filter, after, oldest_first=oldest_first)
    )
    order = _OLDEST_FIRST if oldest_first else _NEWEST_FIRST
    return [*filter_clauses, *POSTGRES.build_position_clauses(after, oldest_first=oldest_first)], Clause(
        f"{order} LIMIT ?", (limit,)
    )


def _build_pin_clause(pinned: int) -> Clause:
    return Clause("sequence <= ?", (pinned,))
