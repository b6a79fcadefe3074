"""Open the file to import, which may be in a zip archive."""

from __future__ import annotations

import lzma
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
"""Maximum size of a line or array item, in bytes."""
STDIN: Final = "-"
ZIP: Final = b"PK\x03\x04"
UNPACKED_MAX: Final = 4 << 30
_RATIO_MAX: Final = 200
"""Maximum compression ratio. Compressed text does not exceed the ratio, but a zip bomb does."""
_CONVERSATIONS: Final = re.compile(r"conversations(-\d+)?\.json|_chat\.txt|WhatsApp Chat.*\.txt")


class ImportFile:
    """A file to import, mapped into memory.

    Attributes:
        head: the first `HEAD_BYTES` bytes.
        content: all bytes.
        consumed: the number of bytes that have been read, for the progress display.

    Args:
        name: a path, or "-" for standard input.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.content = _map_content(name)
        self.head = self.content[:HEAD_BYTES]
        self.consumed = 0

    def read_lines(self) -> Iterator[bytes]:
        """Yield the lines of the file with their line endings.

        A line of more than `VALUE_MAX` bytes is cut to `VALUE_MAX + 1` bytes.
        """
        begin = 0
        while begin < len(self.content):
            end = self.content.find(b"\n", begin) + 1 or len(self.content)
            self.consumed = end
            yield self.content[begin : min(end, begin + VALUE_MAX + 1)]
            begin = end


def _map_content(name: str) -> Bytes:
    """Map a file into memory. A pipe or archive is first copied to an unnamed temporary file."""
    with ExitStack() as stack:
        file = sys.stdin.buffer if name == STDIN else stack.enter_context(Path(name).open("rb"))
        if name == STDIN or not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            file = copy
        if file.read(len(ZIP)) == ZIP:
            file = _unpack_archive(file, stack)
        is_empty = not os.fstat(file.fileno()).st_size
        return b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _unpack_archive(file: BinaryIO, stack: ExitStack) -> BinaryIO:
    """Extract the conversation files of a zip archive to one unnamed temporary file.

    File names in the archive are never used as paths. The archive itself is returned if it has no conversation files,
    is damaged or encrypted, or exceeds a size limit.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = _find_conversation_files(archive.infolist())
            copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            for member in members:
                with archive.open(member) as packed:
                    shutil.copyfileobj(packed, copy)  # the declared size was checked above, and zipfile enforces it
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        ValueError,
        RuntimeError,
    ):  # RuntimeError: encrypted or unsupported compression
        return file
    copy.flush()
    return copy if members else file


def _find_conversation_files(members: Iterable[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the conversation files of an archive, sorted by name; an empty list if they exceed a size limit."""
    named = ((member.filename.rpartition("/")[2], member) for member in members)
    matches = [member for name, member in sorted(named, key=itemgetter(0)) if _CONVERSATIONS.fullmatch(name)]
    size = sum(member.file_size for member in matches)
    compressed = sum(member.compress_size for member in matches)
    return matches if size <= min(UNPACKED_MAX, _RATIO_MAX * compressed) else []
