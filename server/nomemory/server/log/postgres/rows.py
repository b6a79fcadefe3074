"""Rows of messages, read from PostgreSQL in one round trip and checked, and the conditions that they are read by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from nomemory.server.log.damage import DamagedRow, LogDamage, checksum, hold, start_of
from nomemory.server.log.expiry import NEVER_US, Lifetimes
from nomemory.server.log.position import bucket_of
from nomemory.server.log.postgres.connections import Pool, faults
from nomemory.server.log.protocol import FirstPage, Position, beyond
from nomemory.server.log.tables import Table
from nomemory.server.message import Filter, LoggedMessage, stored_mark

Value = str | int | bytes | Sequence[str] | Sequence[int] | Sequence[bytes] | None

_STATEMENTS_KEPT: Final = 512

_HAS_ENTRY: Final = (
    "EXISTS (SELECT 1 FROM metadata_entries AS e WHERE e.bucket = messages.bucket AND e.user_id = messages.user_id"
    " AND e.mark = ? AND e.ts_us = messages.ts_us AND e.message_id = messages.message_id)"
)
_OWN: Final = f"coalesce(messages.expire_us, {NEVER_US}) > ?"
_EXPIRED: Final = "SELECT bucket, user_id, ts_us, message_id FROM messages WHERE expire_us <= ?"
_TOO_OLD: Final = "SELECT bucket, user_id, ts_us, message_id FROM messages WHERE ts_us <= ?"


class Clause(NamedTuple):
    """A condition with question marks, and the values for them."""

    condition: str
    values: Sequence[Value] = ()


@lru_cache(_STATEMENTS_KEPT)
def numbered(statement: str) -> str:
    """Return a statement with its question marks as PostgreSQL writes them: $1, $2 and so on."""
    first, *others = statement.split("?")
    return first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))


def joined(some: Sequence[Clause]) -> Clause:
    """Return one condition that holds where all of them hold."""
    return Clause(" AND ".join(one.condition for one in some), [value for one in some for value in one.values])


def in_buckets(table: Table, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return rows of a table, or what begins as they do, each with the bucket of its user before it."""
    place = table.columns.index("user_id")
    return [(bucket_of(row[place]), *row) for row in rows]


def of_user(user_id: str) -> Clause:
    """Return what holds for the rows of a user."""
    return Clause("messages.bucket = ? AND messages.user_id = ?", (bucket_of(user_id), user_id))


def clauses(user_id: str, narrowed: Filter) -> Iterator[Clause]:
    """Return the conditions of a filter except those on its metadata."""
    yield of_user(user_id)
    if narrowed.since_us is not None:
        yield Clause("messages.ts_us >= ?", (narrowed.since_us,))
    if narrowed.until_us is not None:
        yield Clause("messages.ts_us < ?", (narrowed.until_us,))
    if narrowed.role is not None:
        yield Clause("role = ?", (narrowed.role.value,))
    if narrowed.conversation_id:
        # The second half lets the planner prove that the partial index holds the answer.
        yield Clause("conversation_id = ? AND conversation_id <> ''", (narrowed.conversation_id,))


def metadata_clauses(narrowed: Filter) -> list[Clause]:
    """Return the conditions of a filter on the metadata."""
    return [Clause(_HAS_ENTRY, (stored_mark(entry),)) for entry in narrowed.metadata]


def all_clauses(user_id: str, narrowed: Filter) -> list[Clause]:
    """Return the conditions of a filter, those on its metadata included."""
    return [*clauses(user_id, narrowed), *metadata_clauses(narrowed)]


def page_clauses(user_id: str, narrowed: Filter, after: Position | None, *, oldest_first: bool) -> list[Clause]:
    """Return the conditions of a filter for what stands after a position in either order."""
    past = ">" if oldest_first else "<"
    some = all_clauses(user_id, beyond(narrowed, after, oldest_first=oldest_first))
    if after is not None:
        further = f"(messages.ts_us, messages.message_id) {past} (?, ?)"
        some.append(Clause(further, (after.ts_us, after.message_id)))
    return some


def users_clause(user_id: str | None, prefix: str) -> Clause:
    """Return a condition on the columns of a user: one user, or all whose ids begin with a prefix, which is ASCII."""
    if user_id is not None:
        return Clause("bucket = ? AND user_id = ?", (bucket_of(user_id), user_id))
    if prefix:
        return Clause("user_id >= ? AND user_id < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)))
    return Clause("TRUE")


class Expiry:
    """Writes the conditions on what has expired.

    Args:
        lifetimes: what decides.
    """

    def __init__(self, lifetimes: Lifetimes) -> None:
        self._lifetimes = lifetimes
        self._living = _OWN if lifetimes.most_us is None else f"{_OWN} AND messages.ts_us > ?"

    def living(self) -> Clause:
        """Return what holds for the messages that have not expired by now."""
        oldest_us = self._lifetimes.oldest_us()
        now_us = self._lifetimes.now_us()
        return Clause(self._living, (now_us,) if oldest_us is None else (now_us, oldest_us))

    def gone(self, user_id: str | None) -> Clause:
        """Return a statement for the keys of what has expired and is not removed yet, of one user or of all."""
        users, values = (
            ("", ()) if user_id is None else (" AND bucket = ? AND user_id = ?", (bucket_of(user_id), user_id))
        )
        oldest_us = self._lifetimes.oldest_us()
        now_us = self._lifetimes.now_us()
        if oldest_us is None:
            return Clause(f"{_EXPIRED}{users}", (now_us, *values))
        return Clause(f"{_EXPIRED}{users} UNION {_TOO_OLD}{users}", (now_us, *values, oldest_us, *values))


EVERYTHING: Final = Clause("TRUE")
"""What holds for every message, expired or not."""


CHECKED: Final = "messages.wire, messages.sequence, messages.checksum"
"""The columns of a message as its bytes, with what tells whether they are sound."""
COLUMNS: Final = f"messages.user_id, messages.message_id, messages.ts_us, {CHECKED}"
"""The columns of a message."""
IN_ANY_ORDER: Final = Clause("")

_PIN: Final = "(SELECT latest_sequence FROM users WHERE users.bucket = ? AND users.user_id = ?)"

# Any: each statement says what its columns are.
Row = Any


class PostgresRows:
    """Reads through a pool of connections. Belongs to one event loop.

    Args:
        pool: the connections.
        expiry: what hides messages that have expired.
        damage: told of what is found to be damaged.

    Raises (any method): Fault STORAGE_UNAVAILABLE if the database cannot answer, or a message is damaged.
    """

    def __init__(self, pool: Pool, expiry: Expiry, damage: LogDamage) -> None:
        self._pool = pool
        self._expiry = expiry
        self._damage = damage

    async def fetch(self, statement: str, values: Sequence[Value]) -> list[Row]:
        """Return all rows of a statement with question marks. What it returns of messages is not checked."""
        with faults("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(numbered(statement), *values))

    async def messages(
        self, user_id: str, where: Sequence[Clause], order: Clause = IN_ANY_ORDER
    ) -> list[LoggedMessage]:
        """Return the living messages of a user that conditions admit, in an order."""
        return self.checked(user_id, await self._read(COLUMNS, where, order))

    async def wires(self, user_id: str, where: Sequence[Clause], order: Clause = IN_ANY_ORDER) -> list[bytes]:
        """Return what `messages` does as the bytes of ChatMessages."""
        return self.checked_wires(user_id, await self._read(CHECKED, where, order))

    async def pinned_wires(self, user_id: str, where: Sequence[Clause], order: Clause) -> FirstPage:
        """Return what `wires` does, and before it the sequence of the latest change to the user's messages; 0: none."""
        rows = await self._read(f"{CHECKED}, {_PIN}", where, order, bucket_of(user_id), user_id)
        pinned = (rows[0][3] or 0) if rows else 0
        return FirstPage(pinned, self.checked_wires(user_id, [row[:3] for row in rows]))

    def checked(self, user_id: str, rows: Iterable[Row]) -> list[LoggedMessage]:
        """Return the messages that rows of COLUMNS are, all of one user.

        Raises:
            Fault: STORAGE_UNAVAILABLE, one is damaged.
        """
        rows = list(rows)
        self.checked_wires(user_id, [row[3:] for row in rows])
        return [
            LoggedMessage(user, message_id, ts_us, sequence, wire)
            for user, message_id, ts_us, wire, sequence, _ in rows
        ]

    def checked_wires(self, user_id: str, rows: Sequence[Row]) -> list[bytes]:
        """Return the bytes that rows of CHECKED are, all of one user.

        Raises:
            Fault: STORAGE_UNAVAILABLE, one is damaged.
        """
        if not rows:
            return []
        wires, sequences, sums = zip(*rows, strict=True)
        start = start_of(user_id)
        if not hold(wires, [start + sequence for sequence in sequences], sums):
            raise self._damaged(user_id, rows)
        return list(wires)

    def _damaged(self, user_id: str, rows: Sequence[Row]) -> Exception:
        damaged = [sequence for wire, sequence, crc in rows if checksum(user_id, sequence, wire) != crc]
        for sequence in damaged[1:]:
            self._damage.report(user_id, sequence)
        return self._damage.report(user_id, damaged[0])

    async def _read(self, columns: str, where: Sequence[Clause], order: Clause, *of_columns: Value) -> list[Row]:
        condition, values = joined([*where, self._expiry.living()])
        statement = f"SELECT {columns} FROM messages WHERE {condition} {order.condition}"  # noqa: S608 - ours
        return await self.fetch(statement, (*of_columns, *values, *order.values))


def sifted(rows: Iterable[Row], damage: LogDamage) -> tuple[list[LoggedMessage], list[DamagedRow]]:
    """Return the messages that rows of COLUMNS are, and apart from them what is damaged, which is noted."""
    sound, damaged = list[LoggedMessage](), list[DamagedRow]()
    for user_id, message_id, ts_us, wire, sequence, crc in rows:
        if checksum(user_id, sequence, wire) == crc:
            sound.append(LoggedMessage(user_id, message_id, ts_us, sequence, wire))
        else:
            damage.report(user_id, sequence)
            damaged.append(DamagedRow(sequence, user_id, message_id))
    return sound, damaged
