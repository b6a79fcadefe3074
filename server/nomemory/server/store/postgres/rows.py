"""Read messages from PostgreSQL with verified checksums, and build conditions in the SQL dialect of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from nomemory.server.message import LoggedMessage
from nomemory.server.metadata_hashes import RETRACTION
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.checksums import Row
from nomemory.server.store.conditions import Clause, ExpiryConditions, SqlDialect, Value, join_clauses
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.postgres.connections import ConnectionPool, translate_errors
from nomemory.server.store.results import EncodedFirstPage
from nomemory.server.store.tables import Table

_CACHED_STATEMENTS: Final = 512


@lru_cache(_CACHED_STATEMENTS)
def number_placeholders(statement: str) -> str:
    """Replace the `?` placeholders of a statement with $1, $2 and so on."""
    first, *others = statement.split("?")
    return first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))


def prepend_buckets(table: Table, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Prepend the bucket of the row's user to each row."""
    user_column = table.columns.index("user_id")
    return [(compute_bucket(row[user_column]), *row) for row in rows]


def build_user_clause(user_id: str) -> Clause:
    """Return the condition that selects the messages of a user."""
    return Clause("messages.bucket = ? AND messages.user_id = ?", (compute_bucket(user_id), user_id))


def build_users_clause(user_id: str | None, prefix: str) -> Clause:
    """Return a condition that selects one user, or all users whose ids begin with an ASCII prefix."""
    if user_id is not None:
        return Clause("bucket = ? AND user_id = ?", (compute_bucket(user_id), user_id))
    if prefix:
        return Clause("user_id >= ? AND user_id < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)))
    return Clause("TRUE")


_RETRACTED_BY: Final = f"""CASE WHEN EXISTS (
  SELECT 1 FROM metadata_entries WHERE bucket = ? AND user_id = ?
    AND mark > '\\x{RETRACTION.hex()}'::bytea AND mark < '\\x{RETRACTION.hex()}ff'::bytea
) THEN (
  SELECT retraction.message_id
  FROM metadata_entries AS entry JOIN messages AS retraction USING (bucket, user_id, ts_us, message_id)
  WHERE entry.bucket = ? AND entry.user_id = ?
    AND entry.mark = convert_to('{RETRACTION.decode()}' || messages.message_id, 'UTF8') AND {{live}}
  ORDER BY entry.ts_us DESC, entry.message_id DESC LIMIT 1
) END"""  # noqa: S608 - no user input

POSTGRES: Final = SqlDialect(
    of_user=build_user_clause,
    ts="messages.ts_us",
    order_columns="(messages.ts_us, messages.message_id)",
    unindexed_ts="messages.ts_us",
    has_entry=(
        "EXISTS (SELECT 1 FROM metadata_entries AS e WHERE e.bucket = messages.bucket AND e.user_id = messages.user_id"
        " AND e.mark = ? AND e.ts_us = messages.ts_us AND e.message_id = messages.message_id)"
    ),
    expired="SELECT bucket, user_id, ts_us, message_id FROM messages WHERE expire_us <= ?",
    too_old="SELECT bucket, user_id, ts_us, message_id FROM messages WHERE ts_us <= ?",
    retracted_by=_RETRACTED_BY,
)


CHECKED: Final = "messages.wire, messages.sequence, messages.checksum"
"""The columns of an encoded message, its sequence number and its checksum."""
COLUMNS: Final = f"messages.user_id, messages.message_id, messages.ts_us, {CHECKED}"
"""The columns of a message."""
IN_ANY_ORDER: Final = Clause("")

_PIN: Final = "(SELECT latest_sequence FROM users WHERE users.bucket = ? AND users.user_id = ?)"


class PostgresRows:
    """Reads messages through a connection pool. An instance belongs to one event loop.

    All methods raise the fault STORAGE_UNAVAILABLE if the database is unavailable or a message is damaged.
    """

    def __init__(self, pool: ConnectionPool, expiry: ExpiryConditions, damage_registry: DamageRegistry) -> None:
        self._pool = pool
        self._expiry = expiry
        self._damage_registry = damage_registry

    async def fetch(self, statement: str, values: Sequence[Value]) -> list[Row]:
        """Execute a statement with `?` placeholders, and return all rows without verifying checksums."""
        with translate_errors("read"):
            async with self._pool.connection() as connection:
                return list(await connection.fetch(number_placeholders(statement), *values))

    async def read_messages(
        self, user_id: str, where: Sequence[Clause], order: Clause = IN_ANY_ORDER
    ) -> list[LoggedMessage]:
        """Return the unexpired messages of a user that match all conditions."""
        return self._damage_registry.verify_messages(user_id, await self._read_rows(COLUMNS, user_id, where, order))

    async def read_encoded_messages(
        self, user_id: str, where: Sequence[Clause], order: Clause = IN_ANY_ORDER
    ) -> list[bytes]:
        """Return the unexpired messages of a user that match all conditions, as encoded ChatMessages."""
        return self._damage_registry.verify_encoded_messages(
            user_id, await self._read_rows(CHECKED, user_id, where, order)
        )

    async def read_first_page(self, user_id: str, where: Sequence[Clause], order: Clause) -> EncodedFirstPage:
        """Return the first page of matching messages, with the latest sequence number of the user as its snapshot."""
        rows = await self._read_rows(f"{_PIN}, {CHECKED}", user_id, where, order, compute_bucket(user_id), user_id)
        pinned = (rows[0][0] or 0) if rows else 0
        return EncodedFirstPage(
            pinned, self._damage_registry.verify_encoded_messages(user_id, [row[1:] for row in rows])
        )

    async def _read_rows(
        self, columns: str, user_id: str, where: Sequence[Clause], order: Clause, *column_values: Value
    ) -> list[Row]:
        """Return `columns` of the matching messages, followed by the id of the retracting message or None."""
        unexpired = self._expiry.build_unexpired_clause()
        condition, values = join_clauses([*where, unexpired])
        retraction, retraction_values = self._expiry.build_retraction_expression(user_id, unexpired)
        statement = f"SELECT {columns}, {retraction} FROM messages WHERE {condition} {order.condition}"  # noqa: S608 - no user input
        return await self.fetch(statement, (*column_values, *retraction_values, *values, *order.values))
