"""Repair the message log and the lexical index of a data directory that no server uses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.search.lexical.tantivy.log_comparison import compare_with_log
from nomemory.server.search.lexical.tantivy.schema import discard_index, read_lexical_checkpoint
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.inspection import check_counts, inspect_log, repair_counts
from nomemory.server.store.sqlite.schema import open_writable_log, read_bucket_state, read_position, write_transaction
from nomemory.server.store.sqlite.transaction import TransactionStep


def repair_log(directory: DataDirectory) -> list[str]:
    """Repair message counts, delete orphaned rows, and discard an inconsistent lexical index.

    Returns:
        A description of each repair.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError, sqlite3.Error: the message log cannot be opened.
    """
    with directory.lock(), closing(open_writable_log(directory.log_file)) as log:
        done = []
        if not check_counts(log).is_consistent:
            repair_counts(log)
            done.append("Repaired the message counts.")
        if directory.lexical_index.exists() and not _is_consistent(directory.lexical_index, log):
            discard_index(directory.lexical_index)
            done.append("Deleted the lexical index. It is rebuilt when the server starts.")
    return done


def delete_damaged_messages(directory: DataDirectory) -> int:
    """Delete the messages with wrong checksums, and return their number.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError, sqlite3.Error: the message log cannot be opened.
    """
    with directory.lock(), closing(open_writable_log(directory.log_file)) as log:
        damaged = inspect_log(directory.log_file).messages
        with write_transaction(log):
            step = TransactionStep(log, read_bucket_state(log), RetentionPolicy())
            for message in damaged:
                step.delete_version(message.user_id, message.sequence)
            step.write_planned_rows()
    return len(damaged)


def _is_consistent(directory: Path, log: sqlite3.Connection) -> bool:
    checkpoint = read_lexical_checkpoint(directory, read_position(log).identity)
    if checkpoint is None or not checkpoint.can_resume(read_position(log)):
        return False
    try:
        comparison = compare_with_log(directory, log)
    except IndexUnusableError:
        return False
    return not comparison.missing_versions and not comparison.orphan_versions
