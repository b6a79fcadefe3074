"""Conditions on the table `messages` in PostgreSQL, and statements with numbered places for their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from nomemory.server.log.bucket import bucket_of
from nomemory.server.log.further_page import beyond
from nomemory.server.log.lifetimes import Lifetimes
from nomemory.server.log.protocol import Position
from nomemory.server.log.sqlite_metadata import stored_mark
from nomemory.server.message import Filter

Value = str | int | bytes | Sequence[str] | Sequence[int] | Sequence[bytes] | None

_NEVER: Final = 2**63 - 1
"""Later than every moment of the contract."""
_STATEMENTS_KEPT: Final = 512

_HAS_ENTRY: Final = (
    "EXISTS (SELECT 1 FROM metadata_entries AS e WHERE e.bucket = messages.bucket AND e.user_id = messages.user_id"
    " AND e.mark = ? AND e.ts_us = messages.ts_us AND e.message_id = messages.message_id)"
)
_OWN: Final = f"coalesce(messages.expire_us, {_NEVER}) > ?"
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


def stretch(user_id: str, narrowed: Filter, after: Position | None, *, oldest_first: bool) -> list[Clause]:
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
