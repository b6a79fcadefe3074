"""The files of an import: what is read, and what was not stored.

Ids that keep the order of a file among messages of one user and one time.

Within a user, messages are ordered by time and then by id. Files often have whole seconds, and an id that was derived
or drawn at random says nothing of what came first.
"""

from __future__ import annotations

import json
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
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self, TextIO

from cachetools import LRUCache

from nomemory.importing.draft import Accepted, Parsed, Refused, derived_id
from nomemory.v1 import message_pb2

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


class Rejects:
    """Writes rejects. What an earlier import left is removed; the file comes into being with the first reject.

    Args:
        path: where to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        self.path.unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, source: str, refused: Accepted | Refused, reasons: tuple[str, ...]) -> None:
        """Write one reject of a source."""
        place = refused.place
        entry: dict[str, object] = {"file": source, place.unit: place.number}
        if place.within:
            entry["within"] = place.within
        entry |= {"reasons": list(reasons), "original": refused.original}
        if self._file is None:
            self._file = self.path.open("w", encoding="utf-8", errors="backslashreplace")
        self._file.write(_reject_line(entry))


def _reject_line(entry: dict[str, object]) -> str:
    try:
        return json.dumps(entry, ensure_ascii=False) + "\n"
    except RecursionError:  # it could just be read, but is one level too deep to be written inside of an entry
        return json.dumps(entry | {"original": "nested too deeply to be shown"}, ensure_ascii=False) + "\n"


def rejects_path(source: str) -> Path:
    """Return where the rejects of a file go: beside it, or into the working directory for standard input."""
    return Path("stdin.rejects.jsonl") if source == STDIN else Path(f"{source}.rejects.jsonl")


RENAMED: Final = "z"
"""What a changed id begins with. What sorts after it is changed, too."""


_DIGITS: Final = 8
_ID_CHARS: Final = 128  # the contract's limit
_REMEMBERED: Final = 1 << 16
_Moment = tuple[str, int, int]
"""A user, and a time in seconds and nanoseconds."""


@dataclass(frozen=True, slots=True)
class _Latest:
    """The id of the message that came last at a moment, and how many came there."""

    message_id: str = ""
    count: int = 0


class FileOrder:
    """Changes ids of one file where they would change its order.

    An id stays as it is if it sorts after the one before it. Otherwise it gets a prefix with its place among the
    messages of that user and time: `z00000001_…`. What becomes of a message depends on those before it and on nothing
    else. So a file gets the same ids again, and so does one that has grown at its end. Messages of one id and time
    stay one.

    It remembers the last 65,536 moments and as many ids, so its memory is bounded.
    """

    def __init__(self) -> None:
        self._latest: LRUCache[_Moment, _Latest] = LRUCache(_REMEMBERED)
        self._given: LRUCache[tuple[_Moment, str], str] = LRUCache(_REMEMBERED)

    def placed(self, item: Parsed) -> Parsed:
        """Return the next item of the file with an id that sorts after those before it, unless its id has to stay."""
        if not isinstance(item, Accepted):
            return item
        message = item.message
        moment = (message.user_id, message.ts.seconds, message.ts.nanos)
        known = self._given.get((moment, message.message_id))
        chosen = known or self._next(moment, message.message_id, keeps_id=item.keeps_id)
        self._given[moment, message.message_id] = chosen
        return item if chosen == message.message_id else replace(item, message=_renamed(message, chosen))

    def _next(self, moment: _Moment, own: str, *, keeps_id: bool) -> str:
        latest = self._latest.get(moment, _Latest())
        stays = keeps_id or latest.message_id < own < RENAMED
        chosen = own if stays else _numbered(latest.count, own)
        self._latest[moment] = _Latest(chosen, latest.count + 1)
        return chosen


def _numbered(place: int, own: str) -> str:
    numbered = f"{RENAMED}{place:0{_DIGITS}}_{own}"
    return numbered if len(numbered) <= _ID_CHARS else f"{RENAMED}{place:0{_DIGITS}}_{derived_id('i', own)}"


def _renamed(message: message_pb2.ChatMessage, message_id: str) -> message_pb2.ChatMessage:
    renamed = message_pb2.ChatMessage()
    renamed.CopyFrom(message)
    renamed.message_id = message_id
    return renamed
