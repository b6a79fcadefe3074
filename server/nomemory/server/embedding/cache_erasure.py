"""Takes out of the file of kept vectors what is not of a living message's text."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from nomemory.server.embedding.vector_store import KeptVectorsError, digest_of, opened

_ROWS_MAX: Final = 1000
"""Vectors that are looked at in one statement: others write in between."""


class _StoppedError(Exception):
    """The server stops."""


class CacheErasure:
    """Drops all vectors but those of living texts: of what is gone there is nothing to know its vectors by.

    So the vectors of queries go, too, and those of other models and other data directories. They are made again when
    they are needed. Vectors that come into the file meanwhile stay.

    Args:
        path: the file.
        model: what made its vectors.
        texts: gives the texts that living messages are embedded by, some at a time. Called in a thread of its own.
    """

    def __init__(self, path: Path, model: str, texts: Callable[[], Iterable[Sequence[str]]]) -> None:
        self._path = path
        self._model = model
        self._texts = texts
        self._stopping = threading.Event()

    async def wipe_removed(self) -> None:
        """Do it, in small pieces, and give the space back.

        Raises:
            KeptVectorsError: the file cannot be written.
        """
        if self._path.exists():
            await asyncio.to_thread(self._run)

    def stop(self) -> None:
        """Let a wipe that is under way end. What it did stays done."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            with closing(opened(self._path)) as file:
                file.execute("PRAGMA secure_delete = ON")
                file.execute("CREATE TEMP TABLE living (digest BLOB PRIMARY KEY) WITHOUT ROWID")
                (last,) = file.execute("SELECT ifnull(max(rowid), 0) FROM vectors").fetchone()
                self._note_living(file)
                if self._drop(file, last):
                    file.execute("VACUUM")  # what moved from page to page left copies
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise KeptVectorsError(f"the file of kept vectors cannot be cleaned: {error}") from error
        except _StoppedError:
            return

    def _note_living(self, file: sqlite3.Connection) -> None:
        began_at = time.monotonic()
        for texts in self._texts():
            digests = [(digest_of(self._model, "document", text),) for text in texts]
            file.executemany("INSERT OR IGNORE INTO temp.living VALUES (?)", digests)
            self._rest(began_at)
            began_at = time.monotonic()

    def _drop(self, file: sqlite3.Connection, last: int) -> int:
        """Drop what is not living, up to a row; return how many."""
        dropped = 0
        for after in range(0, last, _ROWS_MAX):
            began_at = time.monotonic()
            dropped += file.execute(
                "DELETE FROM vectors WHERE rowid > ? AND rowid <= ? AND digest NOT IN (SELECT digest FROM temp.living)",
                (after, min(last, after + _ROWS_MAX)),
            ).rowcount
            self._rest(began_at)
        return dropped

    def _rest(self, began_at: float) -> None:
        """Pause as long as the work took."""
        if self._stopping.wait(time.monotonic() - began_at):
            raise _StoppedError
