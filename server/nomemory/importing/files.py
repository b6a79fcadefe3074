"""Read the file of an import, or the archive that holds it."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Final

Bytes = bytes | mmap.mmap
HEAD_BYTES: Final = 1 << 18
VALUE_MAX: Final = 1 << 25
"""Longest line, and longest item of an array, that is held; in bytes."""
STDIN: Final = "-"
ZIP: Final = b"PK\x03\x04"
UNPACKED_MAX: Final = 4 << 30
_RATIO_MAX: Final = 200
"""No text is packed as tightly; a bomb is."""
_CONVERSATIONS: Final = re.compile(r"conversations(-\d+)?\.json|_chat\.txt|WhatsApp Chat.*\.txt")


class Source:
    """The bytes of an import. Of a file only what is looked at is in memory, and no more than a line or a value of it.

    `head` is the beginning, `content` all of it, `consumed` how much has been read so far (in bytes).

    Args:
        name: a path, or "-" for standard input.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.content = _content(name)
        self.head = self.content[:HEAD_BYTES]
        self.consumed = 0

    def lines(self) -> Iterator[bytes]:
        """Read the lines with their ends. Of one that is longer than `VALUE_MAX`, give that much and a byte more."""
        begin = 0
        while begin < len(self.content):
            end = self.content.find(b"\n", begin) + 1 or len(self.content)
            self.consumed = end
            yield self.content[begin : min(end, begin + VALUE_MAX + 1)]
            begin = end


def _content(name: str) -> Bytes:
    """Map a file. What cannot be mapped, such as a pipe, is copied into a file that nobody else sees."""
    with ExitStack() as stack:
        file = sys.stdin.buffer if name == STDIN else stack.enter_context(Path(name).open("rb"))
        if name == STDIN or not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            file = copy
        if file.read(len(ZIP)) == ZIP:
            file = _unpacked(file, stack)
        is_empty = not os.fstat(file.fileno()).st_size
        return b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _unpacked(file: BinaryIO, stack: ExitStack) -> BinaryIO:
    """Copy what an archive has of conversations, one after another, into a file that nobody else sees.

    Nothing is written where a name in the archive says. Without conversations, or if it is damaged, encrypted or
    unreasonably large, return the archive itself.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = _conversations(archive.infolist())
            copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            for member in members:
                with archive.open(member) as packed:
                    shutil.copyfileobj(packed, copy)  # it gives no more than the size that was looked at
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError):  # the last: encrypted, or packed oddly
        return file
    copy.flush()
    return copy if members else file


def _conversations(members: Iterable[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the members that are conversations, in the order of their names; none if they are unreasonably large."""
    named = ((one.filename.rpartition("/")[2], one) for one in members)
    found = [one for name, one in sorted(named, key=itemgetter(0)) if _CONVERSATIONS.fullmatch(name)]
    size, packed = sum(one.file_size for one in found), sum(one.compress_size for one in found)
    return found if size <= min(UNPACKED_MAX, _RATIO_MAX * packed) else []
