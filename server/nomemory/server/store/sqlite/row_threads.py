"""Long statements, run in a pool of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.store.sqlite.rows import SqliteRows

_Result = TypeVar("_Result")


class SqliteRowThreads:
    """A read-only connection to the log in each thread of a pool. SQLite releases the interpreter's lock as it works.

    Args:
        threads: the pool.
        connect: opens a connection.
    """

    def __init__(self, threads: ReadThreads, connect: Callable[[], SqliteRows]) -> None:
        self._threads = threads
        self._connect = connect
        self._of_thread = threading.local()
        self._opened: list[SqliteRows] = []

    async def run(self, read: Callable[[SqliteRows], _Result]) -> _Result:
        """Run a function with the connection of a thread, and return its result."""
        return await self._threads.run(self._run, read)

    def close(self) -> None:
        """Close the connections. No function may be running."""
        for rows in self._opened:
            rows.close()

    def _run(self, read: Callable[[SqliteRows], _Result]) -> _Result:
        rows: SqliteRows | None = getattr(self._of_thread, "rows", None)
        if rows is None:
            rows = self._of_thread.rows = self._connect()
            self._opened.append(rows)
        return read(rows)
