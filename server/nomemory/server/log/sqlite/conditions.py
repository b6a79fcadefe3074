"""How SQLite writes conditions on the table `messages`, and the table of metadata that filters look at.

An entry of metadata is kept as the bytes of its mark, so that a row is short whatever the entry. Rows come and go with
their messages, in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from nomemory.server import wire
from nomemory.server.log.commit import entries_of
from nomemory.server.log.conditions import Clause, Dialect
from nomemory.server.message import Entry, stored_mark

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

_HAS_ENTRY: Final = (
    f"EXISTS (SELECT 1 FROM {TABLE} AS entry WHERE entry.user_id = messages.user_id AND entry.mark = ?"  # noqa: S608
    " AND entry.ts = messages.ts AND entry.message_id = messages.message_id)"
)
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


SQLITE: Final = Dialect(
    of_user=lambda user_id: Clause("messages.user_id = ?", (user_id,)),
    ts="messages.ts",
    free_ts="+messages.ts",
    has_entry=_HAS_ENTRY,
    expired="SELECT user_id, ts, message_id FROM messages INDEXED BY messages_by_expiry WHERE expire_us <= ?",
    too_old="""
    SELECT messages.user_id, ts, message_id FROM users CROSS JOIN messages
      ON messages.user_id = users.user_id AND messages.ts <= ? WHERE TRUE
    """,
)
