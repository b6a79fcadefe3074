"""The file of messages that an import rejected."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from nomemory.importing.files import STDIN
from nomemory.importing.record import Accepted, Rejected


class Rejects:
    """Writes rejected messages to a JSON Lines file.

    Entering the context removes the file of an earlier import. The first rejected message creates a new one.

    Args:
        path: the file to write.
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

    def write(self, source: str, rejected: Accepted | Rejected, reasons: tuple[str, ...]) -> None:
        """Write one rejected message of a source file."""
        location = rejected.location
        entry: dict[str, object] = {"file": source, location.unit: location.number}
        if location.element:
            entry["element"] = location.element
        entry |= {"reasons": list(reasons), "original": rejected.original}
        if self._file is None:
            self._file = self.path.open("w", encoding="utf-8", errors="backslashreplace")
        self._file.write(_reject_line(entry))


def _reject_line(entry: dict[str, object]) -> str:
    try:
        return json.dumps(entry, ensure_ascii=False) + "\n"
    except RecursionError:  # nesting inside the entry exceeds the encoder's recursion limit
        return json.dumps(entry | {"original": "nested too deeply to be written"}, ensure_ascii=False) + "\n"


def rejects_path(source: str) -> Path:
    """Return the path of the rejects file: next to the source, or in the working directory for standard input."""
    return Path("stdin.rejects.jsonl") if source == STDIN else Path(f"{source}.rejects.jsonl")
