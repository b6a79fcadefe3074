"""Filters and expiry as conditions on the table `messages`, and the table of metadata that filters look at.

An entry of metadata is kept as the bytes of its mark, so that a row is short whatever the entry. Rows come and go with
their messages, in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from nomemory.server import wire
from nomemory.server.log.commit import entries_of
from nomemory.server.log.expiry import NEVER_US, Lifetimes
from nomemory.server.message import Entry, Filter, stored_mark

TABLE: Final = "metadata_entries"

METADATA_TABLE: Final = f"""
CREATE TABLE {TABLE} (
  user_id TEXT NOT NULL,
  mark BLOB NOT NULL,
  ts INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  PRIMARY KEY (user_id, mark, ts, message_id)
) WITHOUT ROWID;
"""

HAS_ENTRY: Final = (
    f"EXISTS (SELECT 1 FROM {TABLE} AS entry WHERE entry.user_id = messages.user_id AND entry.mark = ?"  # noqa: S608
    " AND entry.ts = messages.ts AND entry.message_id = messages.message_id)"
)
"""The condition, of any statement over `messages`, that a message has the entry with a mark."""

BY_ENTRY: Final = f"{TABLE} CROSS JOIN messages USING (user_id, ts, message_id)"
"""The messages that have an entry, in their order, as a source of statements: bind `mark`."""

_INSERT: Final = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)"  # noqa: S608
_COUNT: Final = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE user_id=? AND mark=? LIMIT ?)"  # noqa: S608
_FEW: Final = 1024
"""What more messages than this have is common: how common does not matter."""
_AT_ONCE: Final = 1024
"""Messages that are read at once when the table is filled from an older log."""


def rarest_first(connection: sqlite3.Connection, user_id: str, entries: Iterable[Entry]) -> list[bytes]:
    """Return the marks of entries, the one that the fewest of a user's messages have first."""
    marks = list(map(stored_mark, entries))
    if len(marks) > 1:
        marks.sort(key=lambda mark: int(connection.execute(_COUNT, (user_id, mark, _FEW)).fetchone()[0]))
    return marks


def fill_entries(connection: sqlite3.Connection) -> None:
    """Fill the empty table from the messages of a log that had none. Call it within a transaction."""
    stored = connection.execute("SELECT wire FROM messages")
    while some := stored.fetchmany(_AT_ONCE):
        connection.executemany(_INSERT, [row for (each,) in some for row in entries_of(wire.decode(each))])


class Clause(NamedTuple):
    """A condition, and the values that it binds."""

    condition: str
    values: Sequence[str | int | bytes]


def clauses(user_id: str, narrowed: Filter) -> Iterator[Clause]:
    """Return the conditions of a filter except those on its metadata."""
    found: list[tuple[str, str | int | None]] = [
        ("user_id=?", user_id),
        ("ts >= ?", narrowed.since_us),
        ("ts < ?", narrowed.until_us),
        ("role=?", None if narrowed.role is None else narrowed.role.value),
        # The second half lets SQLite prove that the partial index holds the answer.
        ("conversation_id=? AND conversation_id <> ''", narrowed.conversation_id or None),
    ]
    yield from (Clause(condition, (value,)) for condition, value in found if value is not None)


def all_clauses(user_id: str, narrowed: Filter) -> list[Clause]:
    """Return the conditions of a filter, those on its metadata included."""
    of_metadata = (Clause(HAS_ENTRY, (stored_mark(entry),)) for entry in narrowed.metadata)
    return [*clauses(user_id, narrowed), *of_metadata]


def joined(some: Sequence[Clause]) -> Clause:
    """Return one condition that holds where all of them hold."""
    return Clause(" AND ".join(one.condition for one in some), [value for one in some for value in one.values])


_EXPIRED = "SELECT user_id, ts, message_id FROM messages INDEXED BY messages_by_expiry WHERE expire_us <= ?"
_TOO_OLD = "SELECT user_id, ts, message_id FROM messages WHERE user_id = ? AND ts <= ?"
_ALL_TOO_OLD = """
SELECT m.user_id, m.ts, m.message_id FROM users AS u CROSS JOIN messages AS m ON m.user_id = u.user_id AND m.ts <= ?
"""

Condition = tuple[str, tuple[int | str, ...]]
"""A piece of SQL, and the values for its question marks."""


class Expiry:
    """Writes the conditions. They are no reason for SQLite to choose another index.

    Args:
        lifetimes: what decides.
    """

    def __init__(self, lifetimes: Lifetimes) -> None:
        self._lifetimes = lifetimes
        own = f"ifnull(expire_us, {NEVER_US}) > ?"
        self._living = own if lifetimes.most_us is None else f"{own} AND +ts > ?"

    def living(self) -> Condition:
        """Return what holds for the messages that have not expired by now."""
        return self._living, self._moments()

    def expired(self) -> Condition:
        """Return what holds for all others."""
        return f"NOT ({self._living})", self._moments()

    def gone(self, user_id: str | None) -> Condition:
        """Return a statement for the keys of what has expired and is not removed yet, of one user or of all.

        It looks at nothing else: at few messages, if they are removed soon.
        """
        of_user: tuple[str, ...] = () if user_id is None else (user_id,)
        expired = f"{_EXPIRED} AND user_id = ?" if of_user else _EXPIRED
        oldest_us = self._lifetimes.oldest_us()
        if oldest_us is None:
            return expired, (self._lifetimes.now_us(), *of_user)
        too_old = _TOO_OLD if of_user else _ALL_TOO_OLD
        return f"{expired} UNION {too_old}", (self._lifetimes.now_us(), *of_user, *of_user, oldest_us)

    def _moments(self) -> tuple[int, ...]:
        oldest_us = self._lifetimes.oldest_us()
        return (self._lifetimes.now_us(),) if oldest_us is None else (self._lifetimes.now_us(), oldest_us)
