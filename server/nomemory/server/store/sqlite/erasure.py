"""Remove the remains of deleted rows from the log's files: implements `ErasableLog` over SQLite."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path

import orjson

from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.results import Removals
from nomemory.server.store.sqlite.page_wiping import PageLayout, wiped
from nomemory.server.store.sqlite.schema import FORGOTTEN, locked, put_meta
from nomemory.server.store.sqlite.writer import SqliteLogWriter

_PATIENCE_MS = 100
"""How long a checkpoint waits for readers: writes wait with it."""

_INCREMENTAL = 2

_PAGES_MAX = 2**25
"""From here on the number of a page, with which others begin, could be taken for the kind of a page of rows."""

_UNTIL = "SELECT max(seq) FROM (SELECT seq FROM removals WHERE seq <= ? ORDER BY seq LIMIT ?)"
_OF_USERS = "user_id IN (SELECT value FROM json_each(?))"
_DROP_USERS = f"DELETE FROM users WHERE {_OF_USERS} AND messages = 0 AND latest_seq <= ?"  # noqa: S608 - ours
_DROP_REQUESTS = (
    f"DELETE FROM requests WHERE {_OF_USERS} AND user_id NOT IN (SELECT user_id FROM users WHERE {_OF_USERS})"  # noqa: S608
)


class SqliteLogErasure:
    """Works in the writer's thread, between two commits.

    It holds the file open by itself. To close that would take away the locks of every connection of this process, so
    `close` comes after theirs.

    Args:
        writer: the log's writer.
        path: the database file.
        max_vacuum_bytes: a file up to this size is rewritten as a whole.
    """

    def __init__(self, writer: SqliteLogWriter, path: Path, max_vacuum_bytes: int) -> None:
        self._writer = writer
        self._wal = path.with_name(f"{path.name}-wal")
        self._vacuum_max_bytes = max_vacuum_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    async def removals(self, many: int) -> Removals | None:
        """Return what removals there are, and whether they are at least `many`."""
        return await self._writer.between_commits(partial(_removals, many=many))

    async def forget(self, until: FeedPosition, most: int) -> bool:
        """Forget up to `most` removals, and the users of whom nothing is left."""
        return await self._writer.between_commits(partial(_forget, until=until.latest, most=most))

    async def give_back(self, most: int) -> bool:
        """Give back up to `most` free pages; a small file, and one that is not made for that, is rewritten."""
        return await self._writer.between_commits(partial(self._give_back, most=most))

    async def wipe(self, after: int, most: int) -> int | None:
        """Overwrite what belongs to no row in up to `most` pages after a page, and empty the write-ahead log."""
        return await self._writer.between_commits(partial(self._wipe, after=after, most=most))

    def close(self) -> None:
        """Close the file, when no connection of this process has it open any more."""
        os.close(self._file)

    def _give_back(self, connection: sqlite3.Connection, most: int) -> bool:
        if _number(connection, "page_count") * _number(connection, "page_size") <= self._vacuum_max_bytes:
            connection.execute("VACUUM")
        elif _number(connection, "auto_vacuum") == _INCREMENTAL:
            connection.executescript(f"PRAGMA incremental_vacuum({most})")  # `execute` would give back one page
            return _number(connection, "freelist_count") > 0
        return False

    def _wipe(self, connection: sqlite3.Connection, after: int, most: int) -> int | None:
        """Do one piece. The file is as it will be: nothing newer is in the write-ahead log, and nobody writes."""
        if not _checkpointed(connection):
            return after
        with locked(connection):
            if self._wal.stat().st_size:
                return after
            last = self._wipe_pages(after, most)
        connection.execute("PRAGMA shrink_memory")  # its copies of the pages are not wiped
        return last

    def _wipe_pages(self, after: int, most: int) -> int | None:
        layout = PageLayout.of_file(os.pread(self._file, 100, 0))
        pages = os.fstat(self._file).st_size // layout.size
        if pages >= _PAGES_MAX:
            return None
        numbers = range(after + 1, min(after + most, pages) + 1)
        changed = [self._wipe_page(number, layout) for number in numbers if layout.has_cells(number)]
        if any(changed):
            os.fsync(self._file)
        return None if after + most >= pages else numbers[-1]

    def _wipe_page(self, number: int, layout: PageLayout) -> bool:
        place = (number - 1) * layout.size
        clean = wiped(os.pread(self._file, layout.size, place), number, layout)
        if clean is not None:
            os.pwrite(self._file, clean, place)
        return clean is not None


def _removals(connection: sqlite3.Connection, many: int) -> Removals | None:
    (until,) = connection.execute("SELECT max(seq) FROM removals").fetchone()
    if until is None:
        return None
    found = connection.execute("SELECT 1 FROM removals LIMIT 1 OFFSET ?", (many - 1,)).fetchone()
    return Removals(FeedPosition.at(until), found is not None)


def _forget(connection: sqlite3.Connection, until: int, most: int) -> bool:
    with locked(connection):
        (last,) = connection.execute(_UNTIL, (until, most)).fetchone()
        if last is None:
            return False
        found = connection.execute("SELECT DISTINCT user_id FROM removals WHERE seq <= ?", (last,))
        users = orjson.dumps([user_id for (user_id,) in found])
        connection.execute("DELETE FROM removals WHERE seq <= ?", (last,))
        connection.execute(_DROP_USERS, (users, until))
        connection.execute(_DROP_REQUESTS, (users, users))
        put_meta(connection, FORGOTTEN, last)
    return bool(last < until)


def _checkpointed(connection: sqlite3.Connection) -> bool:
    """Copy the write-ahead log into the file and empty it; return whether nobody was in the way."""
    patience = _number(connection, "busy_timeout")
    connection.execute(f"PRAGMA busy_timeout={_PATIENCE_MS}")
    try:
        (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={patience}")
    return not is_busy


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
