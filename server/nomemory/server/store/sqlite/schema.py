"""The SQLite schema of the message log, and functions that open a log and access its state.

- `messages` is clustered by `(user_id, ts, message_id)`, the order of all reads. `seq` numbers the changes of the whole
  message log and identifies one version of a message. `expire_us` is NULL for a message without an expiry time of its
  own. `crc` is the checksum of a version (`checksums`).
- `removals` lists removed versions without their content, so that indexes can remove them. A removal record is deleted
  when all indexes have erased the message (`erasure`).
- `embeddings` has a separate index, because the rows are long. In older message logs, `embeddings` is clustered by its
  key, which is slower but otherwise equivalent.
- `requests` maps the digest of a request id to the ids that were assigned to the messages of the request.
- `metadata_entries` is described in `conditions`.
- `erasures` is the register of erasures (`erasure_register`).
- `epochs` lists the epochs of the message log in order. `epochs.seq` is the latest sequence number before the epoch.
- `meta` contains single values, such as the id and the epoch of the message log.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from nomemory.server.store.checksums import compute_checksum
from nomemory.server.store.errors import LogUnusableError, LogVersionError
from nomemory.server.store.position import LogIdentity, LogPosition
from nomemory.server.store.protocol import LogMigratedError
from nomemory.server.store.sqlite.conditions import METADATA_TABLE, fill_metadata_entries
from nomemory.server.store.tables import Row, Table
from nomemory.server.store.versions import BucketState

SCHEMA_VERSION = 4
REGISTER_SCHEMA: Final = 4
"""The first schema with a register of erasures."""

MIGRATED_TO = "migrated_to"
"""The key in `meta` of the display URL of the database that the log was migrated to."""
EPOCH = "epoch"
"""The key in `meta` of the epoch. It is missing in the first epoch."""
LAST_ID = "last_id"
"""The key in `meta` of the last generated id number."""
FORGOTTEN = "forgotten_seq"
"""The key in `meta` of the sequence number up to which removal records have been deleted."""

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
_REGISTER = """
CREATE TABLE erasures (
  digest BLOB PRIMARY KEY,
  kind TEXT NOT NULL,
  epoch TEXT NOT NULL,
  seq INTEGER NOT NULL,
  erased_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE epochs (
  number INTEGER PRIMARY KEY,
  epoch TEXT NOT NULL,
  seq INTEGER NOT NULL,
  began_us INTEGER NOT NULL
);
INSERT INTO epochs (epoch, seq, began_us)
  SELECT ifnull((SELECT value FROM meta WHERE key='epoch'), ''), 0,
    CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER);
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
{_REGISTER}
"""  # noqa: S608 - no user input

_FROM_1 = f"""
ALTER TABLE messages ADD COLUMN expire_us INTEGER;
{_EXPIRY}
{_REQUESTS}
{METADATA_TABLE}
"""
"""Upgrades schema 1 to schema 2."""

_FROM_2 = """
ALTER TABLE messages ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE messages SET crc = message_checksum(user_id, seq, wire);
"""
"""Upgrades schema 2 to schema 3. Existing messages are assumed to be intact."""

_FROM_3 = _REGISTER
"""Upgrades schema 3 to schema 4."""

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
"""Column names that differ from those of `tables`."""

_ROWS_MAX: Final = 512
"""Maximum number of rows in one INSERT. `sqlite3` releases the GIL for each INSERT, and reacquiring it takes time."""


def open_writable_log(path: Path) -> sqlite3.Connection:
    """Open a message log with durable commits; create the log if it does not exist.

    Raises:
        LogVersionError: the schema is not supported.
        LogUnusableError: the file is not a message log, is damaged, cannot be written, or was migrated.
    """
    try:
        with ExitStack() as rollback:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            rollback.callback(connection.close)
            configure_durability(connection)
            _create_schema(connection)
            _reject_migrated_log(connection)
            read_position(connection)  # detects a damaged file
            rollback.pop_all()
    except sqlite3.Error as error:
        raise LogUnusableError(_UNUSABLE.format(path=path, cause=error)) from error
    return connection


_UNUSABLE = """\
the message log {path} cannot be opened: {cause}. Check that the disk is writable and has free space. If the file is \
damaged, restore a backup with `nomemory restore`. Run `nomemory doctor` for details."""


_MIGRATED: Final = """\
the message log of this data directory was migrated to {destination}. Set NOMEMORY_DATABASE_URL to the URL of that \
database. If `nomemory migrate` was interrupted, run it again first."""


def read_log_position(path: Path) -> LogPosition | None:
    """Return the identity and the latest sequence number of a message log without changing it; None if there is no log.

    Raises:
        LogUnusableError: the file cannot be read, or the message log was migrated.
        LogVersionError: the schema is not supported.
    """
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            _reject_unknown_version(version)
            if not version:
                return None
            _reject_migrated_log(connection)
            return read_position(connection)
    except sqlite3.Error as error:
        raise LogUnusableError(_UNUSABLE.format(path=path, cause=error)) from error


def begin_epoch(connection: sqlite3.Connection, not_before_us: int = 0) -> LogPosition:
    """Start a new epoch of the message log durably; followers of the previous epoch have to start over.

    Args:
        connection: a writable connection to the message log.
        not_before_us: the earliest start time to record, as a Unix time in microseconds.
    """
    began_us = max(time.time_ns() // 1_000, not_before_us)
    with write_transaction(connection):
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, lower(hex(randomblob(8))))", (EPOCH,))
        log = read_position(connection)
        connection.execute(
            "INSERT INTO epochs (epoch, seq, began_us) VALUES (?, ?, ?)", (log.identity.epoch, log.sequence, began_us)
        )
    return log


def remove_log(path: Path) -> None:
    """Delete a database file with its write-ahead log and shared-memory file."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def open_read_only_log(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """Open an existing message log read-only. With `any_thread`, any thread may use the connection, one at a time."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256, check_same_thread=not any_thread)
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA mmap_size=1073741824")
    return connection


def read_identity(connection: sqlite3.Connection) -> LogIdentity:
    """Return the identity of the message log.

    Raises:
        sqlite3.Error: the message log has no id, or the file cannot be read.
    """
    log_id = read_meta(connection, "log_id")
    if log_id is None:
        raise sqlite3.DatabaseError("`log_id` is missing from the table `meta` of the message log: restore a backup")
    return LogIdentity(log_id, read_meta(connection, EPOCH) or "")


def read_position(connection: sqlite3.Connection) -> LogPosition:
    """Return the identity of the message log and its latest sequence number.

    Raises:
        sqlite3.Error: the message log has no id, or the file cannot be read.
    """
    return LogPosition(read_identity(connection), read_latest_sequence(connection))


def read_meta(connection: sqlite3.Connection, key: str) -> str | None:
    """Return the value of a key in the table `meta`; None if the key is not set."""
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return None if row is None else str(row[0])


def put_meta(connection: sqlite3.Connection, key: str, value: str | int) -> None:
    """Set the value of a key in the table `meta`."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(value)))


@contextmanager
def write_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a write transaction, which is committed at the end of the context or rolled back after an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def read_latest_sequence(connection: sqlite3.Connection) -> int:
    """Return the sequence number of the latest change, or 0 in an empty message log."""
    return int(connection.execute(_LATEST, (FORGOTTEN,)).fetchone()[0])


def read_bucket_state(connection: sqlite3.Connection) -> BucketState:
    """Return the latest sequence number and the last generated id number of the message log."""
    return BucketState(read_latest_sequence(connection), int(read_meta(connection, LAST_ID) or "0"))


def format_column_list(columns: Iterable[str]) -> str:
    """Return the names of columns in the SQLite schema, separated by commas."""
    return ", ".join(_NAMES.get(column, column) for column in columns)


def insert_rows(connection: sqlite3.Connection, table: Table, rows: Sequence[Row], on_conflict: str = "") -> None:
    """Insert rows with multi-row statements and an optional ON CONFLICT clause."""
    placeholders = f"({', '.join('?' * len(table.columns))})"
    for start in range(0, len(rows), _ROWS_MAX):
        batch = rows[start : start + _ROWS_MAX]
        values = ", ".join([placeholders] * len(batch))
        connection.execute(
            f"INSERT INTO {table.name} ({format_column_list(table.columns)}) VALUES {values} {on_conflict}",  # noqa: S608 - no user input
            list(chain.from_iterable(batch)),
        )


TUNING: Final = ("PRAGMA cache_size=4096", "PRAGMA wal_autocheckpoint=8192")
"""A page cache that fits commits of many users, and fewer checkpoints, so that hot pages are copied less often."""


def configure_durability(connection: sqlite3.Connection) -> None:
    """Set the pragmas for durable commits and for overwriting deleted content."""
    for pragma in TUNING:
        connection.execute(pragma)
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # takes effect in a new file or after VACUUM
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")


def _create_schema(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        return
    _reject_unknown_version(version)
    connection.create_function("message_checksum", 3, compute_checksum, deterministic=True)
    with write_transaction(connection):
        if version == 0:  # an empty file
            _execute_all(connection, _SCHEMA)
        if version == 1:
            _execute_all(connection, _FROM_1)
            fill_metadata_entries(connection)
        if version in {1, 2}:
            _execute_all(connection, _FROM_2)
        if version in {1, 2, 3}:
            _execute_all(connection, _FROM_3)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _reject_unknown_version(version: int) -> None:
    if not 0 <= version <= SCHEMA_VERSION:
        raise LogVersionError(
            f"the message log has schema {version}, but this server supports only schemas up to {SCHEMA_VERSION}; "
            "use a newer server"
        )


def _reject_migrated_log(connection: sqlite3.Connection) -> None:
    if destination := read_meta(connection, MIGRATED_TO):
        raise LogMigratedError(_MIGRATED.format(destination=destination))


def _execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Execute statements in the open transaction, which `executescript` would commit first."""
    for statement in statements.split(";"):
        connection.execute(statement)
