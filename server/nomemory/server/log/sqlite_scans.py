"""Statements that walk through all that a user ever said: in a thread of their own, beside the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nomemory.server.log.damage import LogDamage
from nomemory.server.log.sqlite_schema import open_for_reading

# Any: each statement says what its columns are.
Row = tuple[Any, ...]


class SqliteScans:
    """A read-only connection to the log for long statements, one at a time. It is opened when the first one comes.

    A hundred thousand messages take SQLite some 50 ms. Meanwhile it lets go of the interpreter's lock.

    Args:
        path: the database file.
        damage: told if it cannot be read.
    """

    def __init__(self, path: Path, damage: LogDamage) -> None:
        self._path = path
        self._damage = damage
        self._thread = ThreadPoolExecutor(1, "log-scans")
        self._connection: sqlite3.Connection | None = None

    async def rows(self, statement: str, values: Sequence[object]) -> list[Row]:
        """Return all rows of a statement, as of one moment: it sees every write that was acknowledged before.

        Raises:
            Fault: STORAGE_UNAVAILABLE if the file cannot be read.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._fetch, statement, values)

    async def close(self) -> None:
        """Close the connection, once the statement that runs has ended."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _fetch(self, statement: str, values: Sequence[object]) -> list[Row]:
        with self._damage.reading():
            if self._connection is None:
                self._connection = open_for_reading(self._path)
            return self._connection.execute(statement, values).fetchall()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
