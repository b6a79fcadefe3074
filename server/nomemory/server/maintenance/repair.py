"""Repairs of a data directory that no server uses. Only what is derived is mended; messages are deleted on a yes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.comparison import compare_words
from nomemory.server.lexical.protocol import IndexUnusableError
from nomemory.server.lexical.tantivy_schema import discard_index, lexical_checkpoint
from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.sqlite.given_ids import GivenIds
from nomemory.server.log.sqlite.inspection import check_counts, inspect, mend_counts
from nomemory.server.log.sqlite.schema import latest_sequence, open_for_writing, position
from nomemory.server.log.sqlite.transaction import Transaction


def repair(directory: DataDirectory) -> list[str]:
    """Mend counts and rows of messages that are gone, and discard indexes that do not agree with the log.

    Returns:
        what was done, in words.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError, sqlite3.Error: the log cannot be used.
    """
    with directory.taken(), closing(open_for_writing(directory.log)) as log:
        done = []
        if not check_counts(log).agree:
            mend_counts(log)
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
    with directory.taken(), closing(open_for_writing(directory.log)) as log:
        damaged = inspect(directory.log).messages
        if damaged:
            with Transaction(log, latest_sequence(log), GivenIds(log), Lifetimes()) as transaction:
                for message in damaged:
                    transaction.delete_version(message.user_id, message.sequence)
    return len(damaged)


def _agrees(directory: Path, log: sqlite3.Connection) -> bool:
    known = lexical_checkpoint(directory, position(log).identity)
    if known is None or not known.can_go_on(position(log)):
        return False
    try:
        found = compare_words(directory, log)
    except IndexUnusableError:
        return False
    return not found.missing and not found.orphans
