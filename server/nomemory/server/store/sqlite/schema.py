"""The tables of the message log, and how a connection to them is opened.

`messages` is clustered by `(user_id, ts, message_id)`, the order in which everything is read. `seq` numbers the
changes of the whole log; a row's `seq` identifies one version of one message. `removals` remembers which versions
are gone, so that indexes can follow; it holds no content, and is forgotten when they have (`erasure`).
`embeddings` is looked up by an index apart: a vector is too long to be compared with. `requests` remembers which ids
the messages of a request got: a digest of the request's id, no content. `expire_us` is NULL where a message does not
expire by itself. (In older logs `embeddings` is clustered by its key, which reads and writes the same, only slower.)
`metadata_entries` is described in `conditions`. `crc` is the checksum of a version (`damage.checksum`). `meta` has the
log's name and its epoch (`identity`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from nomemory.server.store.checksums import checksum
from nomemory.server.store.errors import LogUnusableError, LogVersionError
from nomemory.server.store.position import LogIdentity, LogPosition
from nomemory.server.store.protocol import LogMigratedError
from nomemory.server.store.sqlite.conditions import METADATA_TABLE, fill_entries
from nomemory.server.store.tables import Row, Table
from nomemory.server.store.versions import BucketState

SCHEMA_VERSION = 3

MIGRATED_TO = "migrated_to"
"""The key in `meta` of the database that the log was migrated to, as operators are shown it."""
EPOCH = "epoch"
"""The key in `meta` of the log's epoch; none: the first."""
LAST_ID = "last_id"
"""The key in `meta` of the number of the last id that was made."""
FORGOTTEN = "forgotten_seq"
"""The key in `meta` of the sequence up to which removals are forgotten, because every index has them."""

_EXPIRY = "CREATE INDEX messages_by_expiry ON messages (expire_us) WHERE expire_us IS NOT NULL;"
_REQUESTS = """
CREATE TABLE requests (
  user_id TEXT NOT NULL,
  digest BLOB NOT NULL,
  first_id BLOB NOT NULL,
  size INTEGER NOT NULL,
  PRIMARY KEY (user_id, digest)
) WITHOUT ROWID;
"""

_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('log_id', lower(hex(randomblob(16))));
CREATE TABLE messages (
  user_id TEXT NOT NULL,
  ts INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  role INTEGER NOT NULL,
  conversation_id TEXT NOT NULL,
  wire BLOB NOT NULL,
  expire_us INTEGER,
  crc INTEGER NOT NULL,
  PRIMARY KEY (user_id, ts, message_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX messages_by_id ON messages (user_id, message_id);
CREATE UNIQUE INDEX messages_by_seq ON messages (seq);
CREATE INDEX messages_by_conversation ON messages (user_id, conversation_id, ts, message_id)
  WHERE conversation_id <> '';
{_EXPIRY}
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
{_REQUESTS}
{METADATA_TABLE}
"""  # noqa: S608 - no value of a caller is in it

_FROM_1 = f"""
ALTER TABLE messages ADD COLUMN expire_us INTEGER;
{_EXPIRY}
{_REQUESTS}
{METADATA_TABLE}
"""
"""Brings a log of schema 1 to schema 2: it has no messages that expire."""

_FROM_2 = """
ALTER TABLE messages ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE messages SET crc = message_checksum(user_id, seq, wire);
"""
"""Brings a log of schema 2 to schema 3: what it has is trusted from here on."""

_LATEST = """
SELECT max(ifnull((SELECT max(seq) FROM messages), 0), ifnull((SELECT max(seq) FROM removals), 0),
  ifnull((SELECT CAST(value AS INTEGER) FROM meta WHERE key=?), 0))
"""


_NAMES: Final = {
    "ts_us": "ts",
    "sequence": "seq",
    "removed_sequence": "removed_seq",
    "latest_sequence": "latest_seq",
    "checksum": "crc",
}
"""Columns that have other names here than in other engines."""

_ROWS_MAX: Final = 512
"""Rows in one statement. The interpreter's lock is let go with each step of SQLite, and has to be waited for again."""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the log, creating it if need be. A commit on this connection is durable when it returns.

    Raises:
        LogVersionError: the file has another schema.
        LogUnusableError: the file is no log, is damaged, cannot be written, or was migrated.
    """
    try:
        with ExitStack() as unless_it_works:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            unless_it_works.callback(connection.close)
            be_durable(connection)
            _create(connection)
            _refuse_migrated(connection)
            position(connection)  # what every start needs, so that a damaged file is found here
            unless_it_works.pop_all()
    except sqlite3.Error as error:
        raise LogUnusableError(_UNUSABLE.format(path=path, cause=error)) from error
    return connection


_UNUSABLE = """\
the message log {path} cannot be used: {cause}. If its disk is full or not writable, see to that; if the file is \
damaged, put one from a backup in its place with `nomemory restore`. `nomemory doctor` tells more."""


_MIGRATED: Final = """\
the message log of this data directory was migrated to {destination}. Set NOMEMORY_DATABASE_URL to the URL of that database. If \
`nomemory migrate` was interrupted, run it again first."""


def position_at(path: Path) -> LogPosition | None:
    """Return which log a file holds, and its latest sequence, without changing anything; None if it holds no log.

    Raises:
        LogUnusableError: the file cannot be read, or was migrated.
        LogVersionError: it has a schema that this server does not know.
    """
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            _refuse_unknown(version)
            if not version:
                return None
            _refuse_migrated(connection)
            return position(connection)
    except sqlite3.Error as error:
        raise LogUnusableError(_UNUSABLE.format(path=path, cause=error)) from error


def begin_epoch(connection: sqlite3.Connection) -> LogPosition:
    """Give the log a new epoch, durably: from now on its sequences mean other changes than they did to others."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, lower(hex(randomblob(8))))", (EPOCH,))
    return position(connection)


def remove_log(path: Path) -> None:
    """Delete a log's file, with those that SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def open_for_reading(path: Path, *, anywhere: bool = False) -> sqlite3.Connection:
    """Open an existing log. The connection belongs to the thread that opened it, or `anywhere` to one at a time."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256, check_same_thread=not anywhere)
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA mmap_size=1073741824")
    return connection


def identity(connection: sqlite3.Connection) -> LogIdentity:
    """Return which log this is.

    Raises:
        sqlite3.Error: it has no name, or the file cannot be read.
    """
    log_id = meta(connection, "log_id")
    if log_id is None:
        raise sqlite3.DatabaseError("the log has no name")
    return LogIdentity(log_id, meta(connection, EPOCH) or "")


def position(connection: sqlite3.Connection) -> LogPosition:
    """Return which log this is, and its latest sequence.

    Raises:
        sqlite3.Error: as `identity`.
    """
    return LogPosition(identity(connection), latest_sequence(connection))


def meta(connection: sqlite3.Connection, key: str) -> str | None:
    """Return what is kept under a key; None if nothing is."""
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return None if row is None else str(row[0])


def put_meta(connection: sqlite3.Connection, key: str, value: str | int) -> None:
    """Keep something under a key."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(value)))


@contextmanager
def locked(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep every other writer out, and commit at the end."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def latest_sequence(connection: sqlite3.Connection) -> int:
    """Return the sequence of the latest change (0 in an empty log)."""
    return int(connection.execute(_LATEST, (FORGOTTEN,)).fetchone()[0])


def state_of(connection: sqlite3.Connection) -> BucketState:
    """Return what the last commit left."""
    return BucketState(latest_sequence(connection), int(meta(connection, LAST_ID) or "0"))


def listed(columns: Iterable[str]) -> str:
    """Return the columns of a table by the names that they have here."""
    return ", ".join(_NAMES.get(column, column) for column in columns)


def insert_rows(connection: sqlite3.Connection, table: Table, rows: Sequence[Row], otherwise: str = "") -> None:
    """Insert rows, many in one statement, with what is to be done about those whose keys are there."""
    row = f"({', '.join('?' * len(table.columns))})"
    for at in range(0, len(rows), _ROWS_MAX):
        some = rows[at : at + _ROWS_MAX]
        values = ", ".join([row] * len(some))
        connection.execute(
            f"INSERT INTO {table.name} ({listed(table.columns)}) VALUES {values} {otherwise}",  # noqa: S608 - ours
            list(chain.from_iterable(some)),
        )


TUNING: Final = ("PRAGMA cache_size=4096", "PRAGMA wal_autocheckpoint=8192")
"""How many pages of 4 KB are remembered: a commit of many users' messages touches thousands. And how far the WAL grows
before its pages are copied into the file: one that was written often is then copied once."""


def be_durable(connection: sqlite3.Connection) -> None:
    """Have each commit on a connection kept by the disk when it returns, and what is deleted overwritten."""
    for pragma in TUNING:
        connection.execute(pragma)
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a new file, and of one that is rewritten
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")


def _create(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        return
    _refuse_unknown(version)
    connection.create_function("message_checksum", 3, checksum, deterministic=True)
    with locked(connection):
        if version == 0:  # an empty file
            _execute_all(connection, _SCHEMA)
        if version == 1:
            _execute_all(connection, _FROM_1)
            fill_entries(connection)
        if version in {1, 2}:
            _execute_all(connection, _FROM_2)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _refuse_unknown(version: int) -> None:
    if not 0 <= version <= SCHEMA_VERSION:
        raise LogVersionError(f"the log has schema {version}, this server knows {SCHEMA_VERSION}")


def _refuse_migrated(connection: sqlite3.Connection) -> None:
    if destination := meta(connection, MIGRATED_TO):
        raise LogMigratedError(_MIGRATED.format(destination=destination))


def _execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Execute statements within the transaction that is open: a script would end it first."""
    for statement in statements.split(";"):
        connection.execute(statement)
