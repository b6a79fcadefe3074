"""SQL conditions on the table `messages` for filters, positions and expiry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nomemory.server.message_filter import Filter
from nomemory.server.metadata_hashes import compute_entry_hash_bytes
from nomemory.server.store.results import MessagePosition
from nomemory.server.store.retention import NEVER_US, RetentionPolicy

Value = str | int | bytes | Sequence[str] | Sequence[int] | Sequence[bytes] | None


class Clause(NamedTuple):
    """A SQL condition with `?` placeholders, and the values to bind."""

    condition: str
    values: Sequence[Value] = ()


def join_clauses(clauses: Sequence[Clause]) -> Clause:
    """Join conditions with AND."""
    return Clause(
        " AND ".join(clause.condition for clause in clauses), [value for clause in clauses for value in clause.values]
    )


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """SQL expressions and statements in the dialect of a storage engine.

    Attributes:
        of_user: returns the condition that selects the messages of a user.
        ts: the time column.
        order_columns: the columns that define the order of messages, as a row value.
        unindexed_ts: an expression for the time column that keeps the query planner from using the index of the column.
        has_entry: the condition that selects messages with a metadata entry; the hash of the entry is bound.
        expired: a statement that selects the keys of messages whose own expiry time has passed; the current time is
            bound.
        too_old: a statement that selects the keys of messages at or before a cutoff time, which is bound.
        retracted_by: an expression for the id of the latest message that retracted the selected message. The user id is
            bound twice, then the values of the condition that replaces `{live}`.
    """

    of_user: Callable[[str], Clause]
    ts: str
    order_columns: str
    unindexed_ts: str
    has_entry: str
    expired: str
    too_old: str
    retracted_by: str

    def build_filter_clauses(self, message_filter: Filter) -> list[Clause]:
        """Return the conditions of a filter, except those on metadata."""
        conditions: list[tuple[str, Value]] = [
            (f"{self.ts} >= ?", message_filter.since_us),
            (f"{self.ts} < ?", message_filter.until_us),
            ("role = ?", None if message_filter.role is None else message_filter.role.value),
            # The second condition lets the planner use the partial index.
            ("conversation_id = ? AND conversation_id <> ''", message_filter.conversation_id or None),
            *(("conversation_id <> ?", excluded) for excluded in message_filter.exclude_conversation_ids),
        ]
        return [Clause(condition, (value,)) for condition, value in conditions if value is not None]

    def build_metadata_clauses(self, message_filter: Filter) -> list[Clause]:
        """Return the conditions of a filter on metadata."""
        return [self.build_metadata_clause(compute_entry_hash_bytes(entry)) for entry in message_filter.metadata]

    def build_match_clauses(self, user_id: str, message_filter: Filter) -> list[Clause]:
        """Return the conditions that select the messages of a user that match a filter."""
        return [
            self.of_user(user_id),
            *self.build_filter_clauses(message_filter),
            *self.build_metadata_clauses(message_filter),
        ]

    def build_metadata_clause(self, entry_hash: bytes) -> Clause:
        """Return the condition that selects messages with a metadata entry."""
        return Clause(self.has_entry, (entry_hash,))

    def build_position_clauses(self, after: MessagePosition | None, *, oldest_first: bool) -> list[Clause]:
        """Return the condition that selects messages that follow a position in the given order."""
        if after is None:
            return []
        operator = ">" if oldest_first else "<"
        return [Clause(f"{self.order_columns} {operator} (?, ?)", (after.ts_us, after.message_id))]


class ExpiryConditions:
    """Builds SQL conditions on the expiry and the retraction of messages."""

    def __init__(self, dialect: SqlDialect, retention: RetentionPolicy) -> None:
        self._dialect = dialect
        self._retention = retention
        condition = f"coalesce(messages.expire_us, {NEVER_US}) > ?"
        self._unexpired = condition if retention.max_age_us is None else f"{condition} AND {dialect.unindexed_ts} > ?"
        self._retracted_by = dialect.retracted_by.format(live=self._unexpired.replace("messages.", "retraction."))

    def build_unexpired_clause(self) -> Clause:
        """Return the condition that selects messages that have not expired."""
        cutoff_us, now_us = self._retention.compute_cutoff_us(), self._retention.now_us()
        return Clause(self._unexpired, (now_us,) if cutoff_us is None else (now_us, cutoff_us))

    def build_expired_clause(self) -> Clause:
        """Return the condition that selects expired messages."""
        unexpired = self.build_unexpired_clause()
        return Clause(f"NOT ({unexpired.condition})", unexpired.values)

    def build_retraction_expression(self, user_id: str, unexpired: Clause) -> Clause:
        """Return an expression for the id of the latest message that retracted the selected message, or NULL.

        All messages of the statement belong to `user_id`. `unexpired` is the result of `build_unexpired_clause`.
        """
        user = self._dialect.of_user(user_id).values
        return Clause(self._retracted_by, (*user, *user, *unexpired.values))

    def build_expired_keys_query(self, user_id: str | None) -> Clause:
        """Return a statement that selects the keys of expired messages, of all users if `user_id` is None."""
        users, values = Clause("TRUE") if user_id is None else self._dialect.of_user(user_id)
        expired = f"{self._dialect.expired} AND {users}"
        cutoff_us, now_us = self._retention.compute_cutoff_us(), self._retention.now_us()
        if cutoff_us is None:
            return Clause(expired, (now_us, *values))
        return Clause(f"{expired} UNION {self._dialect.too_old} AND {users}", (now_us, *values, cutoff_us, *values))


def drop_redundant_bound(message_filter: Filter, after: MessagePosition | None, *, oldest_first: bool) -> Filter:
    """Drop the time bound of a filter if the position `after` is a tighter bound.

    With both bounds, SQLite might use the looser one to seek in the index.
    """
    if after is None:
        return message_filter
    since_us, until_us = message_filter.since_us, message_filter.until_us
    if oldest_first and since_us is not None and after.ts_us >= since_us:
        return replace(message_filter, since_us=None)
    if not oldest_first and until_us is not None and after.ts_us < until_us:
        return replace(message_filter, until_us=None)
    return message_filter
