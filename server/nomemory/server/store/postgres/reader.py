"""Reads the message log from PostgreSQL: one round trip a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import Filter
from nomemory.server.store.buckets import BUCKETS, bucket_of
from nomemory.server.store.conditions import Clause, Expiry, all_of, unbounded
from nomemory.server.store.damage import LogDamage
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.rows import (
    COLUMNS,
    POSTGRES,
    PostgresRows,
    of_user,
    users_clause,
)
from nomemory.server.store.results import (
    ConversationSummary,
    EncodedNeighbors,
    FirstPage,
    LogCounts,
    Neighbors,
    Position,
    UserCount,
)
from nomemory.server.store.retention import RetentionPolicy

_NEWEST_FIRST: Final = "ORDER BY messages.ts_us DESC, messages.message_id DESC"
_OLDEST_FIRST: Final = "ORDER BY messages.ts_us, messages.message_id"
_ANCHOR, _BEFORE, _AFTER = range(3)

_LIVING: Final = """(
  SELECT bucket, user_id, latest_sequence, messages - coalesce(gone, 0) AS living FROM users LEFT JOIN
    (SELECT bucket, user_id, count(*) AS gone FROM ({gone}) AS expired GROUP BY bucket, user_id) AS g
    USING (bucket, user_id)
) AS counted WHERE {users}"""
_COUNTS: Final = f"""
SELECT (SELECT max(sequence) FROM buckets), coalesce(max(latest_sequence), 0), coalesce(sum(living), 0)::bigint,
  count(nullif(living, 0)) FROM {_LIVING}
"""  # noqa: S608 - our text, bound values
_USERS: Final = f"SELECT user_id, living FROM {_LIVING} AND user_id > ? AND living > 0 ORDER BY user_id LIMIT ?"  # noqa: S608
_CONVERSATIONS: Final = """
SELECT conversation_id, min(ts_us), max(ts_us), count(*) FROM messages WHERE {where}
GROUP BY conversation_id ORDER BY max(ts_us) DESC, conversation_id DESC
"""
_SIDES: Final = f"""
CROSS JOIN LATERAL (
  (SELECT {_BEFORE} AS side, {COLUMNS} FROM messages
    WHERE messages.bucket = at.bucket AND messages.user_id = at.user_id
      AND (messages.ts_us, messages.message_id) < (at.ts_us, at.message_id) AND {{living}} {_NEWEST_FIRST} LIMIT ?)
  UNION ALL
  (SELECT {_AFTER}, {COLUMNS} FROM messages
    WHERE messages.bucket = at.bucket AND messages.user_id = at.user_id
      AND (messages.ts_us, messages.message_id) > (at.ts_us, at.message_id) AND {{living}} {_OLDEST_FIRST} LIMIT ?)
) AS found
"""  # noqa: S608 - our text, bound values
"""What stands right before and right after each place `at`."""
_AROUND: Final = f"""
SELECT messages.*, {{taker}} FROM (SELECT place::integer, found.* FROM
  unnest(?::smallint[], ?::text[], ?::bigint[], ?::text[]) WITH ORDINALITY
  AS at(bucket, user_id, ts_us, message_id, place) {_SIDES}) AS messages
"""  # noqa: S608 - as above
_SURROUNDINGS: Final = f"""
WITH anchor AS (SELECT * FROM messages WHERE {{of_user}} AND message_id = ? AND {{living}})
SELECT side, wire, sequence, checksum, {{taker}} FROM (
  SELECT {_ANCHOR} AS side, {COLUMNS} FROM anchor AS messages UNION ALL SELECT found.* FROM anchor AS at {_SIDES}
) AS messages
"""  # noqa: S608 - as above
_PENDING: Final = """
SELECT count(*) FROM unnest(?::smallint[], ?::bigint[]) AS wanted(of_bucket, after)
JOIN messages ON bucket = of_bucket AND sequence > after WHERE {users}
"""


class PostgresLogReader:
    """Reads the log through connections of its own; implements `LogReader`. Belongs to one event loop.

    Args:
        database: where the log is.
        lifetimes: what has expired is not read.
        damage: told of what is found to be damaged.
    """

    def __init__(self, database: Database, lifetimes: RetentionPolicy | None = None, damage: LogDamage | None = None) -> None:
        self._pool = database.pool()
        self._expiry = Expiry(POSTGRES, lifetimes or RetentionPolicy())
        self._damage = damage or LogDamage()
        self._rows = PostgresRows(self._pool, self._expiry, self._damage)

    async def identity(self) -> LogIdentity:
        """Return which log this is."""
        ((log_id, epoch),) = await self._rows.fetch("SELECT log_id, epoch FROM log_state", ())
        return LogIdentity(log_id, epoch)

    async def sequence(self) -> int:
        """Return the sequence of the latest change."""
        return (await self.end_position()).latest

    async def end_position(self) -> FeedPosition:
        """Return the sequence of the latest change of each bucket."""
        rows = await self._rows.fetch("SELECT sequence FROM buckets ORDER BY bucket", ())
        return FeedPosition(tuple(sequence for (sequence,) in rows))

    async def user_sequence(self, user_id: str) -> int:
        """Return the sequence of the latest change to this user's messages."""
        statement = "SELECT latest_sequence FROM users WHERE bucket = ? AND user_id = ?"
        rows = await self._rows.fetch(statement, (bucket_of(user_id), user_id))
        return int(rows[0][0]) if rows else 0

    async def counts(self, user_id: str | None, prefix: str = "") -> LogCounts:
        """Count messages and users, of one user or of all whose ids begin with a prefix."""
        gone, users = self._expiry.gone(user_id), users_clause(user_id, prefix)
        statement = _COUNTS.format(gone=gone.condition, users=users.condition)
        ((log_sequence, *counted),) = await self._rows.fetch(statement, (*gone.values, *users.values))
        counts = LogCounts(*map(int, counted))
        everybody = user_id is None and not prefix  # of users of whom nothing is left there is no row
        return replace(counts, sequence=int(log_sequence)) if everybody else counts

    async def pending(self, after: FeedPosition, user_id: str | None, prefix: str = "") -> int:
        """Count the messages that came after a position, of one user or of all whose ids begin with a prefix."""
        buckets = range(BUCKETS) if user_id is None else [bucket_of(user_id)]
        users = users_clause(user_id, prefix)
        statement = _PENDING.format(users=users.condition)
        values = (list(buckets), [after.of(bucket) for bucket in buckets], *users.values)
        ((pending,),) = await self._rows.fetch(statement, values)
        return int(pending)

    async def page(
        self, user_id: str, narrowed: Filter, *, before: Position | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned`, newest first, strictly before a position."""
        which, order = _page(user_id, narrowed, before, limit, oldest_first=False)
        return await self._rows.messages(user_id, [*which, _of_pin(pinned)], order)

    async def encoded_page(
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
        which, order = _page(user_id, narrowed, after, limit, oldest_first=oldest_first)
        return await self._rows.encoded_messages(user_id, [*which, _of_pin(pinned)], order)

    async def first_encoded_page(self, user_id: str, narrowed: Filter, *, limit: int, oldest_first: bool = False) -> FirstPage:
        """Return what `wires` returns of the beginning of a listing, and what pins the rest of it, as of one moment."""
        which, order = _page(user_id, narrowed, None, limit, oldest_first=oldest_first)
        return await self._rows.pinned_wires(user_id, which, order)

    async def count(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages that a filter admits, as of one moment."""
        where, values = all_of([*POSTGRES.admitted(user_id, narrowed), self._expiry.unexpired()])
        ((found,),) = await self._rows.fetch(f"SELECT count(*) FROM messages WHERE {where}", values)  # noqa: S608 - ours
        return int(found)

    async def conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, the latest first, as far as versions with `sequence <= pinned` go."""
        named = Clause("conversation_id <> ''")
        where, values = all_of([of_user(user_id), named, _of_pin(pinned), self._expiry.unexpired()])
        rows = await self._rows.fetch(_CONVERSATIONS.format(where=where), values)
        return list(map(ConversationSummary._make, rows))

    async def users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users who have messages, by id: those after a text whose ids begin with a prefix."""
        gone, users = self._expiry.gone(None), users_clause(None, prefix)
        statement = _USERS.format(gone=gone.condition, users=users.condition)
        rows = await self._rows.fetch(statement, (*gone.values, *users.values, after, limit))
        return list(map(UserCount._make, rows))

    async def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids; those that do not exist are not in the answer."""
        found = await self._rows.messages(
            user_id, [of_user(user_id), Clause("message_id = ANY(?)", (list(message_ids),))]
        )
        return {message.message_id: message for message in found}

    async def by_sequences(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Resolve versions; those that are gone, or are another user's, are not in the answer."""
        found = await self._rows.messages(user_id, [of_user(user_id), Clause("sequence = ANY(?)", (list(sequences),))])
        return {message.sequence: message for message in found}

    async def around(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Neighbors]:
        """Return, for each anchor, up to so many messages right before and right after it."""
        if not anchors:
            return []
        living = self._expiry.unexpired()
        taker = self._expiry.retracted_by(anchors[0].user_id, living)
        buckets = [bucket_of(anchor.user_id) for anchor in anchors]
        user_ids, message_ids, times, *_ = zip(*anchors, strict=True)
        places = (buckets, user_ids, times, message_ids)
        values = (*taker.values, *places, *living.values, before, *living.values, after)
        statement = _AROUND.format(living=living.condition, taker=taker.condition)
        sides: list[tuple[list[LoggedMessage], list[LoggedMessage]]] = [([], []) for _ in anchors]
        for place, side, *row in await self._rows.fetch(statement, values):
            sides[place - 1][side - _BEFORE].extend(self._damage.verify_messages(anchors[place - 1].user_id, [row]))
        return [Neighbors(older[::-1], newer) for older, newer in sides]

    async def surroundings(self, user_id: str, message_id: str, before: int, after: int) -> EncodedNeighbors | None:
        """Return a message and up to so many right before and right after it; None if there is no such message."""
        living, user = self._expiry.unexpired(), of_user(user_id)
        taker = self._expiry.retracted_by(user_id, living)
        anchor = (*user.values, message_id, *living.values)
        values = (*anchor, *taker.values, *living.values, before, *living.values, after)
        statement = _SURROUNDINGS.format(of_user=user.condition, living=living.condition, taker=taker.condition)
        rows = await self._rows.fetch(statement, values)
        if not rows:
            return None
        wires = self._damage.verify_encoded(user_id, [row[1:] for row in rows])
        sides: tuple[list[bytes], ...] = ([], [], [])
        for (side, *_), wire in zip(rows, wires, strict=True):
            sides[side].append(wire)
        return EncodedNeighbors(sides[_BEFORE][::-1], sides[_ANCHOR][0], sides[_AFTER])

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()


def _page(
    user_id: str, narrowed: Filter, after: Position | None, limit: int, *, oldest_first: bool
) -> tuple[list[Clause], Clause]:
    """Return the conditions of a page, and its order with its limit."""
    some = POSTGRES.admitted(user_id, unbounded(narrowed, after, oldest_first=oldest_first))
    order = _OLDEST_FIRST if oldest_first else _NEWEST_FIRST
    return [*some, *POSTGRES.beyond(after, oldest_first=oldest_first)], Clause(f"{order} LIMIT ?", (limit,))


def _of_pin(pinned: int) -> Clause:
    return Clause("sequence <= ?", (pinned,))
