"""What is read and removed, as conditions on the table `messages`: filters, places in the order, and expiry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nomemory.server.message_filter import Filter
from nomemory.server.metadata_marks import stored_mark
from nomemory.server.store.results import Position
from nomemory.server.store.retention import NEVER_US, Lifetimes

Value = str | int | bytes | Sequence[str] | Sequence[int] | Sequence[bytes] | None


class Clause(NamedTuple):
    """A condition with question marks, and the values for them."""

    condition: str
    values: Sequence[Value] = ()


def joined(some: Sequence[Clause]) -> Clause:
    """Return one condition that holds where all of them hold."""
    return Clause(" AND ".join(one.condition for one in some), [value for one in some for value in one.values])


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes them.

    Attributes:
        of_user: what holds for the rows of a user.
        ts: the column of the time.
        place: the columns by which messages are ordered.
        free_ts: the same, where it is no reason to choose an index.
        has_entry: what holds for a message that has the entry of metadata with a mark.
        expired: a statement for the keys of what has expired by itself at a moment.
        too_old: a statement for the keys of what is not younger than a moment.
        retracted_by: an expression for the id of what took a message back, given the user twice, and what is living.
    """

    of_user: Callable[[str], Clause]
    ts: str
    place: str
    free_ts: str
    has_entry: str
    expired: str
    too_old: str
    retracted_by: str

    def of_filter(self, narrowed: Filter) -> list[Clause]:
        """Return the conditions of a filter except those on its metadata."""
        found: list[tuple[str, Value]] = [
            (f"{self.ts} >= ?", narrowed.since_us),
            (f"{self.ts} < ?", narrowed.until_us),
            ("role = ?", None if narrowed.role is None else narrowed.role.value),
            # The second half lets the planner prove that the partial index holds the answer.
            ("conversation_id = ? AND conversation_id <> ''", narrowed.conversation_id or None),
            *(("conversation_id <> ?", excluded) for excluded in narrowed.exclude_conversation_ids),
        ]
        return [Clause(condition, (value,)) for condition, value in found if value is not None]

    def of_metadata(self, narrowed: Filter) -> list[Clause]:
        """Return the conditions of a filter on the metadata."""
        return [self.has(stored_mark(entry)) for entry in narrowed.metadata]

    def admitted(self, user_id: str, narrowed: Filter) -> list[Clause]:
        """Return what holds for the messages of a user that a filter admits."""
        return [self.of_user(user_id), *self.of_filter(narrowed), *self.of_metadata(narrowed)]

    def has(self, mark: bytes) -> Clause:
        """Return what holds for the messages that have the entry with a mark."""
        return Clause(self.has_entry, (mark,))

    def beyond(self, after: Position | None, *, oldest_first: bool) -> list[Clause]:
        """Return what holds strictly after a position in either order."""
        if after is None:
            return []
        past = ">" if oldest_first else "<"
        return [Clause(f"{self.place} {past} (?, ?)", (after.ts_us, after.message_id))]


class Expiry:
    """Writes the conditions on what has expired.

    Args:
        dialect: how they are written.
        lifetimes: what decides.
    """

    def __init__(self, dialect: Dialect, lifetimes: Lifetimes) -> None:
        self._dialect = dialect
        self._lifetimes = lifetimes
        own = f"coalesce(messages.expire_us, {NEVER_US}) > ?"
        self._living = own if lifetimes.most_us is None else f"{own} AND {dialect.free_ts} > ?"
        self._retracted_by = dialect.retracted_by.format(living=self._living.replace("messages.", "taker."))

    def living(self) -> Clause:
        """Return what holds for the messages that have not expired by now."""
        oldest_us, now_us = self._lifetimes.oldest_us(), self._lifetimes.now_us()
        return Clause(self._living, (now_us,) if oldest_us is None else (now_us, oldest_us))

    def expired(self) -> Clause:
        """Return what holds for all others."""
        living = self.living()
        return Clause(f"NOT ({living.condition})", living.values)

    def retracted_by(self, user_id: str, living: Clause) -> Clause:
        """Return an expression for the id of the living message that took back the one at hand, of a user, or NULL.

        That a user takes nothing back is found out once in a statement.
        """
        user = self._dialect.of_user(user_id).values
        return Clause(self._retracted_by, (*user, *user, *living.values))

    def gone(self, user_id: str | None) -> Clause:
        """Return a statement for the keys of what has expired and is not removed yet, of one user or of all.

        It looks at nothing else: at few messages, if they are removed soon.
        """
        users, values = Clause("TRUE") if user_id is None else self._dialect.of_user(user_id)
        expired = f"{self._dialect.expired} AND {users}"
        oldest_us, now_us = self._lifetimes.oldest_us(), self._lifetimes.now_us()
        if oldest_us is None:
            return Clause(expired, (now_us, *values))
        return Clause(f"{expired} UNION {self._dialect.too_old} AND {users}", (now_us, *values, oldest_us, *values))


def unbounded(narrowed: Filter, after: Position | None, *, oldest_first: bool) -> Filter:
    """Drop the bound that a position makes needless: given both, SQLite starts at the wrong one."""
    if after is None:
        return narrowed
    since_us, until_us = narrowed.since_us, narrowed.until_us
    if oldest_first and since_us is not None and after.ts_us >= since_us:
        return replace(narrowed, since_us=None)
    if not oldest_first and until_us is not None and after.ts_us < until_us:
        return replace(narrowed, until_us=None)
    return narrowed
