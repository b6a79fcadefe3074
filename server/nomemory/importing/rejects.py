"""The rejects file, to which an import writes the messages that it cannot store."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

from nomemory.importing.files import STDIN
from nomemory.importing.record import AcceptedMessage, RejectedRecord

_SUFFIX: Final = ".rejects.jsonl"


class RejectsFile:
    """Writes the rejects file, a JSON Lines file of rejected messages.

    Entering the context removes the rejects file of an earlier import. The file is created when the first message is
    rejected. If the directory is not writable, the file is created in the system's temporary directory.

    Attributes:
        written: the path of the file that was created; None if no message was rejected.
    """

    def __init__(self, path: Path) -> None:
        self.written: Path | None = None
        self._path = path
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        with suppress(OSError):  # a directory that is not writable
            self._path.unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write_rejection(
        self, source: str, rejected: AcceptedMessage | RejectedRecord, reasons: tuple[str, ...]
    ) -> None:
        """Write one rejected message with its location and reasons."""
        location = rejected.location
        entry: dict[str, object] = {"file": source, location.unit: location.number}
        if location.element:
            entry["element"] = location.element
        entry |= {"reasons": list(reasons), "original": rejected.original}
        if self._file is None:
            self._file = self._create_file()
        self._file.write(_encode_rejection(entry))

    def _create_file(self) -> TextIO:
        """Create the rejects file, in the temporary directory if necessary."""
        try:
            file: TextIO = self._path.open("w", encoding="utf-8", errors="backslashreplace")
        except OSError:
            file = _create_temporary_file(self._path.name)
        self.written = Path(file.name)
        return file


def _create_temporary_file(name: str) -> TextIO:
    descriptor, path = tempfile.mkstemp(prefix=f"{name.removesuffix(_SUFFIX)}.", suffix=_SUFFIX)
    os.close(descriptor)
    return Path(path).open("w", encoding="utf-8", errors="backslashreplace")


def _encode_rejection(entry: dict[str, object]) -> str:
    try:
        return json.dumps(entry, ensure_ascii=False) + "\n"
    except RecursionError:  # nesting inside the entry exceeds the encoder's recursion limit
        return json.dumps(entry | {"original": "nested too deeply to be written"}, ensure_ascii=False) + "\n"


def build_rejects_path(source: str) -> Path:
    """Return the path of the rejects file, next to the imported file.

    For standard input, the path is in the working directory.
    """
    return Path(f"{'stdin' if source == STDIN else source}{_SUFFIX}")
