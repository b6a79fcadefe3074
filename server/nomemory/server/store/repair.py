"""Repair a data directory that no server uses: rebuild derived data, and delete damaged messages on confirmation."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.search.lexical.tantivy.log_comparison import compare_with_log
from nomemory.server.search.lexical.tantivy.schema import discard_index, lexical_checkpoint
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.inspection import check_counts, inspect, repair_counts
from nomemory.server.store.sqlite.schema import locked, open_for_writing, position, state_of
from nomemory.server.store.sqlite.transaction import Step


def repair(directory: DataDirectory) -> list[str]:
    """Mend counts and rows of messages that are gone, and discard indexes that do not agree with the log.

    Returns:
        what was done, in words.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError, sqlite3.Error: the log cannot be used.
    """
    with directory.lock(), closing(open_for_writing(directory.log)) as log:
        done = []
        if not check_counts(log).agree:
            repair_counts(log)
            done.append("The counts agree with the messages again.")
        if directory.lexical.exists() and not _agrees(directory.lexical, log):
            discard_index(directory.lexical)
            done.append("The index of words is gone, and is built anew when a server starts.")
    return done


def delete_damaged(directory: DataDirectory) -> int:
    """Delete the messages whose checksums do not hold; return how many.

    Raises:
        as `repair`.
    """
    with directory.lock(), closing(open_for_writing(directory.log)) as log:
        damaged = inspect(directory.log).messages
        with locked(log):
            step = Step(log, state_of(log), RetentionPolicy())
            for message in damaged:
                step.delete_version(message.user_id, message.sequence)
            step.flush()
    return len(damaged)


def _agrees(directory: Path, log: sqlite3.Connection) -> bool:
    known = lexical_checkpoint(directory, position(log).identity)
    if known is None or not known.can_resume(position(log)):
        return False
    try:
        found = compare_with_log(directory, log)
    except IndexUnusableError:
        return False
    return not found.missing and not found.orphans
