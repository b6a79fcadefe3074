"""Find and clear the unused bytes of a SQLite database page.

SQLite overwrites deleted rows (`secure_delete`), but not the copies that remain when it moves rows from page to page.
They are between the cell pointers of a page and its first cell, or in its free blocks.
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
