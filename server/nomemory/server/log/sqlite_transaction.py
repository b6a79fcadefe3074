"""What one commit of the log does."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from types import TracebackType
from typing import Self

import orjson

from nomemory.server.log.batch import BatchPlan, Key, Version, plan_batch
from nomemory.server.log.protocol import Deleted, OnConflict, Written
from nomemory.server.log.sqlite_metadata import TABLE, Row, forget_entries, rows_of
from nomemory.server.message import Message

_EXISTING = """
SELECT m.user_id, m.message_id, m.ts, m.seq, m.wire, e.vector
FROM json_each(?) AS wanted
CROSS JOIN messages AS m INDEXED BY messages_by_id
  ON m.user_id = json_extract(wanted.value, '$[0]') AND m.message_id = json_extract(wanted.value, '$[1]')
LEFT JOIN embeddings AS e ON e.user_id = m.user_id AND e.message_id = m.message_id
"""

_ADD_UP = "ON CONFLICT DO UPDATE SET latest_seq = excluded.latest_seq, messages = messages + excluded.messages"

_ROWS_MAX = 512
"""Rows in one statement. The interpreter's lock is let go with each step of SQLite, and has to be waited for again."""


class Transaction:
    """One commit. Its methods check everything before they write anything, so that a refused batch leaves no trace.

    Attributes:
        sequence: the latest sequence that was given out.
    """

    def __init__(self, connection: sqlite3.Connection, sequence: int) -> None:
        self._connection = connection
        self.sequence = sequence

    def __enter__(self) -> Self:
        self._connection.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def write(self, messages: Sequence[Message], *, on_conflict: OnConflict) -> Written:
        """Store a batch.

        Raises:
            Fault: MESSAGE_CONFLICT; then nothing of the batch was written.
        """
        keys = [(message.user_id, message.message_id) for message in messages]
        plan = plan_batch(messages, self._existing(keys), on_conflict)
        self._remove(plan.removes, gone=False)
        self._store(plan)
        return Written(tuple(plan.outcomes), self.sequence if plan.stores else plan.covering)

    def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user."""
        wanted = dict.fromkeys(message_ids)
        existing = self._existing([(user_id, message_id) for message_id in wanted])
        self._remove(existing, gone=True)
        missing = tuple(message_id for message_id in wanted if (user_id, message_id) not in existing)
        return Deleted(len(existing), missing, self.sequence)

    def _existing(self, keys: Iterable[Key]) -> dict[Key, Version]:
        wanted = orjson.dumps(sorted(set(keys)))
        rows = self._connection.execute(_EXISTING, (wanted,))
        return {(user, message_id): Version(*version) for user, message_id, *version in rows}

    def _remove(self, versions: dict[Key, Version], *, gone: bool) -> None:
        if not versions:
            return
        removals = [(self._next(), *key, version.sequence) for key, version in versions.items()]
        self._connection.executemany("INSERT INTO removals VALUES (?, ?, ?, ?)", removals)
        self._connection.executemany(
            "DELETE FROM messages WHERE user_id=? AND ts=? AND message_id=?",
            [(user, version.ts_us, message) for (user, message), version in versions.items()],
        )
        forget_entries(self._connection, [version.wire for version in versions.values()])
        self._connection.executemany("DELETE FROM embeddings WHERE user_id=? AND message_id=?", list(versions))
        if gone:
            self._count(Counter(user for user, _ in versions), sign=-1)

    def _store(self, plan: BatchPlan) -> None:
        rows, vectors, entries = [], [], list[Row]()
        for store in plan.stores.values():
            m = store.message
            rows.append((m.user_id, m.ts_us, m.message_id, self._next(), m.role.value, m.conversation_id, store.wire))
            entries += rows_of(m)
            if m.embedding is not None:
                vectors.append((m.user_id, m.message_id, m.embedding))
        self._insert("messages", rows)
        self._insert("embeddings", vectors)
        self._insert(TABLE, entries)
        created = Counter(user for user, message in plan.stores if (user, message) not in plan.removes)
        self._count(Counter({user: created[user] for user, _ in plan.stores}), sign=1)

    def _insert(self, table: str, rows: Sequence[tuple[object, ...]], *, otherwise: str = "") -> None:
        for at in range(0, len(rows), _ROWS_MAX):
            some = rows[at : at + _ROWS_MAX]
            row = f"({', '.join('?' * len(some[0]))})"
            values = ", ".join([row] * len(some))
            self._connection.execute(
                f"INSERT INTO {table} VALUES {values} {otherwise}",  # noqa: S608 - names are ours, values are bound
                list(chain.from_iterable(some)),
            )

    def _count(self, per_user: Counter[str], *, sign: int) -> None:
        rows = [(user, self.sequence, sign * count) for user, count in per_user.items()]
        self._insert("users", rows, otherwise=_ADD_UP)

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence
