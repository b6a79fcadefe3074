"""How SQLite writes conditions on the table `messages`, and the table of metadata that filters look at.

An entry of metadata is kept as the bytes of its mark, so that a row is short whatever the entry. What a message takes
back is kept as entries, too (`retraction_key`). Rows come and go with their messages, in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from nomemory.server import wire
from nomemory.server.metadata_hashes import RETRACTION, Entry, entry_hash_bytes
from nomemory.server.store.commit import entries_of
from nomemory.server.store.conditions import Clause, Dialect

METADATA_TABLE: Final = """
CREATE TABLE metadata_entries (
  user_id TEXT NOT NULL,
  mark BLOB NOT NULL,
  ts INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  PRIMARY KEY (user_id, mark, ts, message_id)
) WITHOUT ROWID;
"""

_HAS_ENTRY: Final = (
    "EXISTS (SELECT 1 FROM metadata_entries AS entry WHERE entry.user_id = messages.user_id AND entry.mark = ?"
    " AND entry.ts = messages.ts AND entry.message_id = messages.message_id)"
)
BY_ENTRY: Final = "metadata_entries CROSS JOIN messages USING (user_id, ts, message_id)"
"""The messages that have an entry, in their order, as a source of statements: bind `mark`.

Columns without the name of a table are those of the entries, whose order is used."""

_INSERT: Final = "INSERT INTO metadata_entries VALUES (?, ?, ?, ?)"
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM metadata_entries WHERE user_id=? AND mark=? LIMIT ?)"
_FEW: Final = 1024
"""What more messages than this have is common: how common does not matter."""
_AT_ONCE: Final = 1024
"""Messages that are read at once when the table is filled from an older log."""


def rarest_first(connection: sqlite3.Connection, user_id: str, entries: Iterable[Entry]) -> list[bytes]:
    """Return the marks of entries, the one that the fewest of a user's messages have first."""
    marks = list(map(entry_hash_bytes, entries))
    if len(marks) > 1:
        marks.sort(key=lambda mark: int(connection.execute(_COUNT, (user_id, mark, _FEW)).fetchone()[0]))
    return marks


def fill_entries(connection: sqlite3.Connection) -> None:
    """Fill the empty table from the messages of a log that had none. Call it within a transaction."""
    stored = connection.execute("SELECT wire FROM messages")
    while some := stored.fetchmany(_AT_ONCE):
        connection.executemany(_INSERT, [row for (each,) in some for row in entries_of(wire.decode(each))])


_RETRACTED_BY: Final = f"""CASE WHEN EXISTS (
  SELECT 1 FROM metadata_entries WHERE user_id = ? AND mark > X'{RETRACTION.hex()}' AND mark < X'{RETRACTION.hex()}FF'
) THEN (
  SELECT taker.message_id
  FROM metadata_entries AS entry CROSS JOIN messages AS taker USING (user_id, ts, message_id)
  WHERE entry.user_id = ? AND entry.mark = CAST('{RETRACTION.decode()}' || messages.message_id AS BLOB) AND {{living}}
  ORDER BY entry.ts DESC, entry.message_id DESC LIMIT 1
) END"""  # noqa: S608 - no value of a caller is in it

SQLITE: Final = Dialect(
    of_user=lambda user_id: Clause("user_id = ?", (user_id,)),
    ts="ts",
    place="(ts, message_id)",
    free_ts="+ts",
    has_entry=_HAS_ENTRY,
    expired="SELECT user_id, ts, message_id FROM messages INDEXED BY messages_by_expiry WHERE expire_us <= ?",
    too_old="SELECT user_id, ts, message_id FROM users CROSS JOIN messages USING (user_id) WHERE ts <= ?",
    retracted_by=_RETRACTED_BY,
)
