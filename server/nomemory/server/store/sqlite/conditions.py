"""The SQL dialect of SQLite, and the table of metadata entries.

A metadata entry is stored as a hash, so rows are short. Retractions are also stored as entries
(`build_retraction_key`). Entries are inserted and deleted in the same transaction as their messages.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from nomemory.server import wire
from nomemory.server.metadata_hashes import RETRACTION, Entry, compute_entry_hash_bytes
from nomemory.server.store.commit import build_metadata_rows
from nomemory.server.store.conditions import Clause, SqlDialect

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
"""A FROM clause for the messages with a metadata entry, in time order; `mark` has to be bound.

Unqualified columns are those of `metadata_entries`, so its index provides the order."""

_INSERT: Final = "INSERT INTO metadata_entries VALUES (?, ?, ?, ?)"
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM metadata_entries WHERE user_id=? AND mark=? LIMIT ?)"
_MAX_COUNT: Final = 1024
"""Entries that occur in more messages than this are treated as equally common."""
_BATCH_ROWS: Final = 1024
"""Number of messages to read at once when filling the table."""


def sort_by_frequency(connection: sqlite3.Connection, user_id: str, entries: Iterable[Entry]) -> list[bytes]:
    """Return the hashes of metadata entries, from the rarest to the most frequent in a user's messages."""
    hashes = list(map(compute_entry_hash_bytes, entries))
    if len(hashes) > 1:
        hashes.sort(
            key=lambda entry_hash: int(connection.execute(_COUNT, (user_id, entry_hash, _MAX_COUNT)).fetchone()[0])
        )
    return hashes


def fill_metadata_entries(connection: sqlite3.Connection) -> None:
    """Fill the empty table of metadata entries from the stored messages, in the open transaction."""
    stored = connection.execute("SELECT wire FROM messages")
    while rows := stored.fetchmany(_BATCH_ROWS):
        connection.executemany(
            _INSERT, [entry for (encoded,) in rows for entry in build_metadata_rows(wire.decode(encoded))]
        )


_RETRACTED_BY: Final = f"""CASE WHEN EXISTS (
  SELECT 1 FROM metadata_entries WHERE user_id = ? AND mark > X'{RETRACTION.hex()}' AND mark < X'{RETRACTION.hex()}FF'
) THEN (
  SELECT retraction.message_id
  FROM metadata_entries AS entry CROSS JOIN messages AS retraction USING (user_id, ts, message_id)
  WHERE entry.user_id = ? AND entry.mark = CAST('{RETRACTION.decode()}' || messages.message_id AS BLOB) AND {{live}}
  ORDER BY entry.ts DESC, entry.message_id DESC LIMIT 1
) END"""  # noqa: S608 - no user input

SQLITE: Final = SqlDialect(
    of_user=lambda user_id: Clause("user_id = ?", (user_id,)),
    ts="ts",
    order_columns="(ts, message_id)",
    unindexed_ts="+ts",
    has_entry=_HAS_ENTRY,
    expired="SELECT user_id, ts, message_id FROM messages INDEXED BY messages_by_expiry WHERE expire_us <= ?",
    too_old="SELECT user_id, ts, message_id FROM users CROSS JOIN messages USING (user_id) WHERE ts <= ?",
    retracted_by=_RETRACTED_BY,
)
