"""Rows of messages, read from PostgreSQL with one round trip a statement, and checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from nomemory.server.log.bucket import bucket_of
from nomemory.server.log.checksum import checksum, hold, start_of
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.postgres_conditions import Clause, Expiry, Value, joined, numbered
from nomemory.server.log.postgres_connections import ReadPool, faults
from nomemory.server.log.protocol import FirstPage
from nomemory.server.message import LoggedMessage

CHECKED: Final = "messages.wire, messages.sequence, messages.checksum"
"""The columns of a message as its bytes, with what tells whether they are sound."""
COLUMNS: Final = f"messages.user_id, messages.message_id, messages.ts_us, {CHECKED}"
"""The columns of a message."""
IN_ANY_ORDER: Final = Clause("")

_PIN: Final = "(SELECT latest_sequence FROM users WHERE users.bucket = ? AND users.user_id = ?)"

# Any: each statement says what its columns are.
Row = Any


class DamagedRow(NamedTuple):
    """Where a damaged version stands."""

    sequence: int
    user_id: str
    message_id: str


class PostgresRows:
    """Reads through a pool of connections. Belongs to one event loop.

    Args:
        pool: the connections.
        expiry: what hides messages that have expired.
        damage: told of what is found to be damaged.

    Raises (any method): Fault STORAGE_UNAVAILABLE if the database cannot answer, or a message is damaged.
    """

    def __init__(self, pool: ReadPool, expiry: Expiry, damage: LogDamage) -> None:
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
            self._damage.met(user_id, sequence)
        return self._damage.met(user_id, damaged[0])

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
            damage.met(user_id, sequence)
            damaged.append(DamagedRow(sequence, user_id, message_id))
    return sound, damaged
