"""Filters as conditions on the table `messages`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nomemory.server.log.sqlite_metadata import HAS_ENTRY, stored_mark
from nomemory.server.message import Filter


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
