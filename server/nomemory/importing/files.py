"""The files of an import: what is read, and what was not stored."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Self, TextIO

from nomemory.importing.record import Accepted, Refused

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEAD_BYTES: Final = 1 << 18
STDIN: Final = "-"


class Source(io.RawIOBase):
    """The bytes of an import, read once from beginning to end.

    `head` is the beginning, `size` the length if it is known, `consumed` how much has been read so far (in bytes).

    Args:
        name: a path, or "-" for standard input.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._raw: BinaryIO = sys.stdin.buffer if name == STDIN else Path(name).open("rb")  # noqa: SIM115 - closed by close()
        self.size = None if name == STDIN else os.fstat(self._raw.fileno()).st_size or None
        self.head = self._raw.read(HEAD_BYTES)
        self.consumed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.name != STDIN:
            self._raw.close()
        super().close()

    def readable(self) -> bool:
        """Say that this can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read on, first from the head, then from the file."""
        view = memoryview(buffer)
        chunk = self.head[self.consumed : self.consumed + len(view)] or self._raw.read(len(view))
        view[: len(chunk)] = chunk
        self.consumed += len(chunk)
        return len(chunk)


class Rejects:
    """Writes rejects. What an earlier import left is removed; the file comes into being with the first reject.

    `count` is how many there were.

    Args:
        path: where to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
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
        self.count += 1


def _reject_line(entry: dict[str, object]) -> str:
    try:
        return json.dumps(entry, ensure_ascii=False) + "\n"
    except RecursionError:  # it could just be read, but is one level too deep to be written inside of an entry
        return json.dumps(entry | {"original": "nested too deeply to be shown"}, ensure_ascii=False) + "\n"


def rejects_path(source: str) -> Path:
    """Return where the rejects of a file go: beside it, or into the working directory for standard input."""
    return Path("stdin.rejects.jsonl") if source == STDIN else Path(f"{source}.rejects.jsonl")
