"""Erase the remains of deleted rows from the SQLite files of the message log."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path

import orjson

from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.results import PendingRemovals
from nomemory.server.store.sqlite.page_wiping import PageLayout, zero_unused_bytes
from nomemory.server.store.sqlite.schema import FORGOTTEN, put_meta, read_meta, write_transaction
from nomemory.server.store.sqlite.writer import SqliteLogWriter

_UNFINISHED = "erasure_unfinished"
"""The key in `meta` that is set from the deletion of removal records until the unused bytes have been overwritten."""
_CHECKPOINT_TIMEOUT_MS = 100
"""Maximum time that a checkpoint waits for readers. Writes are blocked in the meantime."""

_INCREMENTAL = 2

_PAGES_MAX = 2**25
"""Files with more pages are not wiped: an overflow page begins with a page number, and one that is larger looks
like the header of a b-tree page."""

_LAST_OF_BATCH = "SELECT max(seq) FROM (SELECT seq FROM removals WHERE seq <= ? ORDER BY seq LIMIT ?)"
_OF_USERS = "user_id IN (SELECT value FROM json_each(?))"
_DELETE_USERS = f"DELETE FROM users WHERE {_OF_USERS} AND messages = 0 AND latest_seq <= ?"  # noqa: S608 - no user input
_DELETE_REQUESTS = (
    f"DELETE FROM requests WHERE {_OF_USERS} AND user_id NOT IN (SELECT user_id FROM users WHERE {_OF_USERS})"  # noqa: S608
)


class SqliteLogErasure:
    """Erases deleted messages from a SQLite message log (`ErasableLog`).

    The erasure runs in the writer's thread between commits, and has its own file descriptor. Closing the descriptor
    releases the POSIX locks of all connections of this process, so the connections must be closed first.

    Args:
        max_vacuum_bytes: files up to this size are rewritten with VACUUM.
    """

    def __init__(self, writer: SqliteLogWriter, path: Path, max_vacuum_bytes: int) -> None:
        self._writer = writer
        self._wal = path.with_name(f"{path.name}-wal")
        self._vacuum_max_bytes = max_vacuum_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    async def read_pending_removals(self, minimum: int) -> PendingRemovals | None:
        """Return the last removal's position, and whether at least `minimum` are pending.

        If an earlier erasure has deleted the removal records, but has not overwritten all unused bytes, return its
        position as that of many removals. Otherwise, without removals, return None.
        """
        return await self._writer.run_between_commits(partial(_read_removals, minimum=minimum))

    async def delete_removals(self, until: FeedPosition, limit: int) -> bool:
        """Delete up to `limit` removal records, and users without messages; return whether more records remain."""
        return await self._writer.run_between_commits(partial(_delete_removals, until=until.latest, limit=limit))

    async def release_free_pages(self, limit: int) -> bool:
        """Release up to `limit` free pages to the file system; rewrite a small file with VACUUM instead."""
        return await self._writer.run_between_commits(partial(self._release_free_pages, limit=limit))

    async def overwrite_unused_bytes(self, after: int, limit: int) -> int | None:
        """Empty the write-ahead log, and overwrite the unused bytes of up to `limit` pages after page `after`."""
        return await self._writer.run_between_commits(partial(self._overwrite_batch, after=after, limit=limit))

    def close(self) -> None:
        """Close the file descriptor. All connections of this process must have been closed."""
        os.close(self._file)

    def _release_free_pages(self, connection: sqlite3.Connection, limit: int) -> bool:
        if _read_pragma(connection, "page_count") * _read_pragma(connection, "page_size") <= self._vacuum_max_bytes:
            connection.execute("VACUUM")
        elif _read_pragma(connection, "auto_vacuum") == _INCREMENTAL:
            connection.executescript(f"PRAGMA incremental_vacuum({limit})")  # `execute` would release one page
            return _read_pragma(connection, "freelist_count") > 0
        return False

    def _overwrite_batch(self, connection: sqlite3.Connection, after: int, limit: int) -> int | None:
        """Overwrite the unused bytes of up to `limit` pages, with writes blocked and an empty write-ahead log."""
        if not _checkpoint_wal(connection):
            return after
        with write_transaction(connection):
            if self._wal.stat().st_size:
                return after
            last = self._overwrite_pages(after, limit)
        connection.execute("PRAGMA shrink_memory")  # cached pages still have the old bytes
        if last is None and read_meta(connection, _UNFINISHED) is not None:
            with write_transaction(connection):
                connection.execute("DELETE FROM meta WHERE key=?", (_UNFINISHED,))
            _checkpoint_wal(connection)
        return last

    def _overwrite_pages(self, after: int, limit: int) -> int | None:
        layout = PageLayout.from_file_header(os.pread(self._file, 100, 0))
        pages = os.fstat(self._file).st_size // layout.size
        if pages >= _PAGES_MAX:
            return None
        numbers = range(after + 1, min(after + limit, pages) + 1)
        changed = [self._overwrite_page(number, layout) for number in numbers if layout.may_have_cells(number)]
        if any(changed):
            os.fsync(self._file)
        return None if after + limit >= pages else numbers[-1]

    def _overwrite_page(self, number: int, layout: PageLayout) -> bool:
        offset = (number - 1) * layout.size
        clean = zero_unused_bytes(os.pread(self._file, layout.size, offset), number, layout)
        if clean is not None:
            os.pwrite(self._file, clean, offset)
        return clean is not None


def _read_removals(connection: sqlite3.Connection, minimum: int) -> PendingRemovals | None:
    (until,) = connection.execute("SELECT max(seq) FROM removals").fetchone()
    if until is None:
        return _read_unfinished_erasure(connection)
    row = connection.execute("SELECT 1 FROM removals LIMIT 1 OFFSET ?", (minimum - 1,)).fetchone()
    return PendingRemovals(FeedPosition.from_sequence(until), row is not None)


def _read_unfinished_erasure(connection: sqlite3.Connection) -> PendingRemovals | None:
    """Return the removals whose records have been deleted, but whose bytes may not have been overwritten."""
    if read_meta(connection, _UNFINISHED) is None:
        return None
    forgotten = int(read_meta(connection, FORGOTTEN) or 0)
    return PendingRemovals(FeedPosition.from_sequence(forgotten), are_many=True)


def _delete_removals(connection: sqlite3.Connection, until: int, limit: int) -> bool:
    with write_transaction(connection):
        (last,) = connection.execute(_LAST_OF_BATCH, (until, limit)).fetchone()
        if last is None:
            return False
        rows = connection.execute("SELECT DISTINCT user_id FROM removals WHERE seq <= ?", (last,))
        users = orjson.dumps([user_id for (user_id,) in rows])
        connection.execute("DELETE FROM removals WHERE seq <= ?", (last,))
        connection.execute(_DELETE_USERS, (users, until))
        connection.execute(_DELETE_REQUESTS, (users, users))
        put_meta(connection, FORGOTTEN, last)
        put_meta(connection, _UNFINISHED, 1)
    return bool(last < until)


def _checkpoint_wal(connection: sqlite3.Connection) -> bool:
    """Checkpoint and truncate the write-ahead log; return False if a reader blocked the checkpoint."""
    timeout_ms = _read_pragma(connection, "busy_timeout")
    connection.execute(f"PRAGMA busy_timeout={_CHECKPOINT_TIMEOUT_MS}")
    try:
        (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={timeout_ms}")
    return not is_busy


def _read_pragma(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
