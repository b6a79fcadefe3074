"""The file of messages that an import refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from nomemory.importing.files import STDIN
from nomemory.importing.record import Accepted, Rejected


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

    def write(self, source: str, refused: Accepted | Rejected, reasons: tuple[str, ...]) -> None:
        """Write one reject of a source."""
        place = refused.location
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
