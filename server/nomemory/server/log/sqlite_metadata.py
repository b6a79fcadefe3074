"""The metadata of messages as the log looks it up: a row for each entry, in the order in which messages are read.

An entry is kept as the bytes of its mark, so that a row is short whatever the entry. Rows come and go with their
messages, in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from nomemory.server import wire
from nomemory.server.message import Message
from nomemory.server.metadata_mark import Entry, mark_of

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

_FORGET: Final = f"DELETE FROM {TABLE} WHERE (user_id, mark, ts, message_id) = (?, ?, ?, ?)"  # noqa: S608
_FORGET_ALL: Final = f"DELETE FROM {TABLE} WHERE (user_id, ts, message_id) = (?, ?, ?)"  # noqa: S608
_INSERT: Final = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)"  # noqa: S608
_COUNT: Final = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE user_id=? AND mark=? LIMIT ?)"  # noqa: S608
_FEW: Final = 4096
"""What more messages than this have is common: how common does not matter."""
_AT_ONCE: Final = 1024
"""Messages that are read at once when the table is filled from an older log."""

Row = tuple[str, bytes, int, str]


class Place(NamedTuple):
    """Where a message stands, and its bytes as a ChatMessage."""

    user_id: str
    ts_us: int
    message_id: str
    wire: bytes


def stored_mark(entry: Entry) -> bytes:
    """Return the mark of an entry as the table has it."""
    return bytes.fromhex(mark_of(entry))


def rows_of(message: Message) -> Iterator[Row]:
    """Return the rows of a message."""
    for entry in message.metadata.items():
        yield message.user_id, stored_mark(entry), message.ts_us, message.message_id


def forget_entries(connection: sqlite3.Connection, places: Iterable[Place]) -> None:
    """Delete the rows of messages."""
    damaged, rows = list[tuple[str, int, str]](), list[Row]()
    for place in places:
        try:
            rows += rows_of(wire.decode(place.wire))
        except DecodeError:
            damaged.append(place[:3])
    connection.executemany(_FORGET, rows)
    connection.executemany(_FORGET_ALL, damaged)


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
        connection.executemany(_INSERT, [row for (each,) in some for row in rows_of(wire.decode(each))])
