"""Find and clear the unused bytes of a SQLite database page.

SQLite overwrites deleted rows (`secure_delete`), but not the copies that remain when it moves rows between pages. Such
copies are in the free blocks of a page, or between its cell pointers and its first cell.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_INTERIOR, _LEAF = frozenset({2, 5}), frozenset({10, 13})


_FILE_HEADER = 100


_PENDING_BYTE = 0x40000000


_POINTER_MAP_ENTRY = 5


_MIN_FREE_BLOCK = 4


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The page layout of a SQLite database file.

    Attributes:
        size: the page size in bytes.
        usable: the number of bytes at the start of a page that SQLite uses.
        has_pointer_map: whether the file has pointer map pages (`auto_vacuum`).
    """

    size: int
    usable: int
    has_pointer_map: bool

    @classmethod
    def from_file_header(cls, header: bytes) -> PageLayout:
        """Parse the database header, which is the first 100 bytes of a database file."""
        (size,) = struct.unpack_from(">H", header, 16)
        size = 65_536 if size == 1 else size
        return cls(size, size - header[20], header[52:56] != bytes(4))

    def may_have_cells(self, number: int) -> bool:
        """Return whether a page, numbered from 1, can be a b-tree page."""
        lock_page = _PENDING_BYTE // self.size + 1
        if number == lock_page:
            return False
        if not self.has_pointer_map or number == 1:
            return True
        interval = self.usable // _POINTER_MAP_ENTRY + 1
        pointers = (number - 2) // interval * interval + 2
        return number != (pointers + 1 if pointers == lock_page else pointers)


def zero_unused_bytes(page: bytes, number: int, layout: PageLayout) -> bytes | None:
    """Return a b-tree page with its unused bytes zeroed; None for other pages or if no byte changes."""
    clean = bytearray(page)
    for start, end in _find_unused_ranges(page, _FILE_HEADER if number == 1 else 0, layout.usable):
        clean[start:end] = bytes(end - start)
    return None if clean == page else bytes(clean)


def _find_unused_ranges(page: bytes, header: int, usable: int) -> Iterator[tuple[int, int]]:
    """Yield the unused byte ranges of a b-tree page; yield nothing for a malformed page."""
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
    blocks = _find_free_blocks(page, free, first, usable)
    if blocks is not None:
        yield gap, first
        yield from blocks


def _find_free_blocks(page: bytes, offset: int, first: int, usable: int) -> list[tuple[int, int]] | None:
    """Return the byte ranges of free blocks without their 4-byte headers; None if the list of blocks is malformed."""
    blocks = list[tuple[int, int]]()
    while offset:
        if not first <= offset <= usable - _MIN_FREE_BLOCK:
            return None
        following, size = struct.unpack_from(">HH", page, offset)
        blocks.append((offset, offset + size))
        if size < _MIN_FREE_BLOCK or offset + size > usable or (following and following <= offset):
            return None
        offset = following
    if any(end > start for (_, end), (start, _) in pairwise(blocks)):
        return None
    return [(start + _MIN_FREE_BLOCK, end) for start, end in blocks]
