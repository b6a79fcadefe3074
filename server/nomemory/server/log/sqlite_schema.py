"""The tables of the message log, and how a connection to them is opened.

`messages` is clustered by `(user_id, ts, message_id)`, the order in which everything is read. `seq` numbers the
changes of the whole log; a row's `seq` identifies one version of one message. `removals` remembers which versions
are gone, so that indexes can follow; it holds no content. `embeddings` is looked up by an index apart: a vector is too
long to be compared with. (Older logs have them clustered by that key, which reads and writes the same, only slower.)
`metadata_entries` is described in `sqlite_metadata`.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

from nomemory.server.log.protocol import LogUnusableError, LogVersionError
from nomemory.server.log.sqlite_metadata import METADATA_TABLE, fill_entries

SCHEMA_VERSION = 2

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE messages (
  user_id TEXT NOT NULL,
  ts INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  role INTEGER NOT NULL,
  conversation_id TEXT NOT NULL,
  wire BLOB NOT NULL,
  PRIMARY KEY (user_id, ts, message_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX messages_by_id ON messages (user_id, message_id);
CREATE UNIQUE INDEX messages_by_seq ON messages (seq);
CREATE INDEX messages_by_conversation ON messages (user_id, conversation_id, ts, message_id)
  WHERE conversation_id <> '';
CREATE TABLE removals (
  seq INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  removed_seq INTEGER NOT NULL
);
CREATE TABLE embeddings (
  user_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  vector BLOB NOT NULL,
  UNIQUE (user_id, message_id)
);
CREATE TABLE users (
  user_id TEXT PRIMARY KEY,
  latest_seq INTEGER NOT NULL,
  messages INTEGER NOT NULL
) WITHOUT ROWID;
"""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the log, creating it if need be. A commit on this connection is durable when it returns.

    Raises:
        LogVersionError: the file has another schema.
        LogUnusableError: the file is no log, is damaged, or cannot be written.
    """
    try:
        with ExitStack() as unless_it_works:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            unless_it_works.callback(connection.close)
            _prepare(connection)
            unless_it_works.pop_all()
    except sqlite3.Error as error:
        raise LogUnusableError(_UNUSABLE.format(path=path, cause=error)) from error
    return connection


_UNUSABLE = """\
the message log {path} cannot be used: {cause}. If its disk is full or not writable, see to that; if the file is \
damaged, put one from a backup in its place. `nomemory doctor` tells more."""


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open an existing log. The connection belongs to the thread that opened it."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA mmap_size=1073741824")
    return connection


def log_id(connection: sqlite3.Connection) -> str:
    """Return the random name that this log got when it was created.

    Raises:
        sqlite3.Error: there is none, or the file cannot be read.
    """
    row = connection.execute("SELECT value FROM meta WHERE key='log_id'").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the log has no name")
    return str(row[0])


def latest_sequence(connection: sqlite3.Connection) -> int:
    """Return the sequence of the latest change (0 in an empty log)."""
    (latest,) = connection.execute(
        "SELECT max(ifnull((SELECT max(seq) FROM messages), 0), ifnull((SELECT max(seq) FROM removals), 0))"
    ).fetchone()
    return int(latest)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    _create(connection)
    _probe(connection)


def _create(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        return
    if version == 1:
        _add_metadata_entries(connection)
        return
    if version != 0:
        raise LogVersionError(f"the log has schema {version}, this server knows {SCHEMA_VERSION}")
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {METADATA_TABLE} PRAGMA user_version={SCHEMA_VERSION};")
    connection.execute("INSERT INTO meta VALUES ('log_id', ?)", (token_hex(16),))
    connection.execute("COMMIT")


def _add_metadata_entries(connection: sqlite3.Connection) -> None:
    """Bring a log of the first schema up to date, all or nothing; its messages stay as they are."""
    connection.executescript(f"BEGIN IMMEDIATE; {METADATA_TABLE}")
    fill_entries(connection)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _probe(connection: sqlite3.Connection) -> None:
    """Read what every start needs, so that a damaged file is found here."""
    log_id(connection)
    latest_sequence(connection)
