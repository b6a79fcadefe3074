"""Takes out of the log's files what removed rows have left there: implements `ErasableLog` over SQLite.

SQLite overwrites rows that are deleted (`secure_delete`), but not the copies that remain when it moves rows from page
to page. They stand between the pointers to a page's cells and its first cell, or in its free blocks.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import orjson

from nomemory.server.store.position import FeedPosition
from nomemory.server.store.protocol import Removals
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
        vacuum_max_bytes: a file up to this size is rewritten as a whole.
    """

    def __init__(self, writer: SqliteLogWriter, path: Path, vacuum_max_bytes: int) -> None:
        self._writer = writer
        self._wal = path.with_name(f"{path.name}-wal")
        self._vacuum_max_bytes = vacuum_max_bytes
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


_INTERIOR, _LEAF = frozenset({2, 5}), frozenset({10, 13})
_FILE_HEADER = 100
_PENDING_BYTE = 0x40000000
_POINTER_MAP_ENTRY = 5
_LEAST_FREE_BLOCK = 4


@dataclass(frozen=True, slots=True)
class PageLayout:
    """How a file is divided into pages.

    Attributes:
        size: bytes of a page.
        usable: how many of them SQLite uses.
        has_pointer_map: whether the file has pages that say what points to each page, as it has with auto_vacuum.
    """

    size: int
    usable: int
    has_pointer_map: bool

    @classmethod
    def of_file(cls, header: bytes) -> PageLayout:
        """Read it from the first 100 bytes of a file."""
        (size,) = struct.unpack_from(">H", header, 16)
        size = 65_536 if size == 1 else size
        return cls(size, size - header[20], header[52:56] != bytes(4))

    def has_cells(self, number: int) -> bool:
        """Return whether a page, counted from 1, can hold rows."""
        locked = _PENDING_BYTE // self.size + 1
        if number == locked:
            return False
        if not self.has_pointer_map or number == 1:
            return True
        every = self.usable // _POINTER_MAP_ENTRY + 1
        pointers = (number - 2) // every * every + 2
        return number != (pointers + 1 if pointers == locked else pointers)


def wiped(page: bytes, number: int, layout: PageLayout) -> bytes | None:
    """Return a page of rows with zeros where no row is; None if it is another page or there is nothing to do."""
    clean = bytearray(page)
    for start, end in _unused(page, _FILE_HEADER if number == 1 else 0, layout.usable):
        clean[start:end] = bytes(end - start)
    return None if clean == page else bytes(clean)


def _unused(page: bytes, header: int, usable: int) -> Iterator[tuple[int, int]]:
    """Return the ranges of a page that belong to no row; none if it makes no sense as a page of rows."""
    kind = page[header]
    if kind not in _INTERIOR | _LEAF:
        return
    free, cells, first = struct.unpack_from(">HHH", page, header + 1)
    first = first or 65_536
    pointers = header + (12 if kind in _INTERIOR else 8)
    gap = pointers + 2 * cells
    if not gap <= first <= usable:
        return
    if any(not first <= cell < usable for (cell,) in struct.iter_unpack(">H", page[pointers:gap])):
        return
    blocks = _free_blocks(page, free, first, usable)
    if blocks is not None:
        yield gap, first
        yield from blocks


def _free_blocks(page: bytes, at: int, first: int, usable: int) -> list[tuple[int, int]] | None:
    """Return what is within the free blocks, without the 4 bytes at the head of each; None if that makes no sense."""
    blocks = list[tuple[int, int]]()
    while at:
        if not first <= at <= usable - _LEAST_FREE_BLOCK:
            return None
        following, size = struct.unpack_from(">HH", page, at)
        blocks.append((at, at + size))
        if size < _LEAST_FREE_BLOCK or at + size > usable or (following and following <= at):
            return None
        at = following
    if any(end > start for (_, end), (start, _) in pairwise(blocks)):
        return None
    return [(start + _LEAST_FREE_BLOCK, end) for start, end in blocks]
