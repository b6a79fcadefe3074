"""Export the register of erasures of a SQLite message log, and apply an exported register."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Final

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.store.erasure_register import (
    AppliedErasures,
    ErasureEntry,
    RegisterError,
    RegisterKey,
    resolve_affected_sequences,
)
from nomemory.server.store.register_file import RegisterFile, read_register, write_register
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.erasure_register import (
    DIGEST_OF_MESSAGE,
    DIGEST_OF_USER,
    add_digest_functions,
    merge_erasures,
    read_epochs,
    read_erasures,
)
from nomemory.server.store.sqlite.schema import (
    REGISTER_SCHEMA,
    open_writable_log,
    read_bucket_state,
    read_identity,
    read_latest_sequence,
    read_log_position,
    write_transaction,
)
from nomemory.server.store.sqlite.transaction import TransactionStep

_NO_LOG: Final = "there is no message log in {root}"
_NO_REGISTER: Final = "{log} was written by a version without a register of erasures"
_BATCH: Final = 1_000
_CREATE: Final = "CREATE TEMP TABLE affected (digest BLOB PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID"
_INSERT: Final = "INSERT INTO affected VALUES (?, ?) ON CONFLICT DO UPDATE SET seq = max(seq, excluded.seq)"
_USERS: Final = f"""
SELECT u.user_id, a.seq FROM users AS u CROSS JOIN affected AS a ON a.digest = {DIGEST_OF_USER}(u.user_id)
WHERE u.messages > 0
"""  # noqa: S608 - no user input
_MESSAGES: Final = f"""
SELECT m.user_id, m.message_id, a.seq FROM messages AS m INDEXED BY messages_by_id
CROSS JOIN affected AS a ON a.digest = {DIGEST_OF_MESSAGE}(m.user_id, m.message_id) WHERE m.seq <= a.seq
"""  # noqa: S608 - no user input


def apply_erasures(connection: sqlite3.Connection, erasures: Iterable[ErasureEntry]) -> AppliedErasures:
    """Delete the registered messages and add the entries to the register of a message log, in one transaction.

    The erasures must come from a register of this message log. Messages that were written after their erasure are kept.
    No server may be using the message log.

    Args:
        connection: a writable connection to the message log.
        erasures: the entries of a register, which are iterated only once.

    Raises:
        RegisterError: the message log has lost erasures, but has not started a new epoch since.
        sqlite3.Error: the message log cannot be written.
    """
    add_digest_functions(connection)
    connection.execute(_CREATE)
    try:
        with write_transaction(connection):
            entries = _load_entries(connection, erasures)
            users, of_users = _erase_users(connection)
            return AppliedErasures(entries, users, of_users + _delete_messages(connection))
    finally:
        connection.execute("DROP TABLE affected")


def export_register(directory: DataDirectory, path: Path) -> int:
    """Write the register of a data directory to a file, and return the number of entries. Servers may be running.

    Raises:
        RegisterError: there is no message log, or its schema has no register.
        LogUnusableError, LogVersionError, sqlite3.Error: the message log cannot be read.
        OSError: the file cannot be written.
    """
    now_us = time.time_ns() // 1_000
    with closing(open_register(directory.log_file)) as connection:
        since_us = read_epochs(connection)[0].began_us
        key = RegisterKey.from_log_id(read_identity(connection).log_id)
        return write_register(path, key, since_us, read_erasures(connection), now_us)


def apply_register(directory: DataDirectory, path: Path) -> tuple[RegisterFile, AppliedErasures]:
    """Apply a register file to the message log of a data directory. No server may be running.

    Raises:
        RegisterError: there is no message log; the file is damaged or belongs to another log; or the log has lost
            erasures, but has not started a new epoch since.
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError, sqlite3.Error, OSError: the message log cannot be written, or the file cannot
            be read.
    """
    if read_log_position(directory.log_file) is None:
        raise RegisterError(_NO_LOG.format(root=directory.root))
    with directory.lock(), closing(open_writable_log(directory.log_file)) as connection:
        register = read_register(path, RegisterKey.from_log_id(read_identity(connection).log_id))
        return register, apply_erasures(connection, register.read_erasures())


def open_register(log: Path) -> sqlite3.Connection:
    """Open a message log that has a register of erasures, read-only and in a transaction.

    Raises:
        RegisterError: there is no message log, or its schema has no register.
        LogUnusableError, LogVersionError, sqlite3.Error: the message log cannot be read.
    """
    if read_log_position(log) is None:
        raise RegisterError(_NO_LOG.format(root=log.parent))
    with ExitStack() as rollback:
        connection = sqlite3.connect(f"{log.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        rollback.callback(connection.close)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version < REGISTER_SCHEMA:
            raise RegisterError(_NO_REGISTER.format(log=log))
        connection.execute("BEGIN")
        rollback.pop_all()
    return connection


def _load_entries(connection: sqlite3.Connection, erasures: Iterable[ErasureEntry]) -> int:
    """Add erasures to the register, and to a temporary table with the last sequence number that each affects."""
    entries, epochs, latest = 0, read_epochs(connection), read_latest_sequence(connection)
    unread = iter(erasures)
    while batch := list(islice(unread, _BATCH)):
        affected = [
            (erasure.digest, sequence) for erasure, sequence in resolve_affected_sequences(batch, epochs, latest)
        ]
        connection.executemany(_INSERT, affected)
        merge_erasures(connection, batch)
        entries += len(batch)
    return entries


def _erase_users(connection: sqlite3.Connection) -> tuple[int, int]:
    """Erase the users in the register; return the number of users with messages, and of their messages."""
    step = _begin_step(connection)
    removed = [step.erase_up_to(user_id, sequence) for user_id, sequence in connection.execute(_USERS).fetchall()]
    step.write_planned_rows()
    return sum(map(bool, removed)), sum(removed)


def _delete_messages(connection: sqlite3.Connection) -> int:
    deleted, selected = 0, connection.execute(_MESSAGES).fetchall()
    for start in range(0, len(selected), _BATCH):
        step = _begin_step(connection)
        deleted += step.delete_up_to(
            {(user_id, message_id): sequence for user_id, message_id, sequence in selected[start : start + _BATCH]}
        )
        step.write_planned_rows()
    return deleted


def _begin_step(connection: sqlite3.Connection) -> TransactionStep:
    return TransactionStep(connection, read_bucket_state(connection), RetentionPolicy())
