"""Run long SQLite statements in a thread pool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.store.sqlite.rows import SqliteRows

_Result = TypeVar("_Result")


class SqliteRowThreads:
    """Read-only connections to the message log, one for each thread of a thread pool."""

    def __init__(self, threads: ReadThreads, connect: Callable[[], SqliteRows]) -> None:
        self._threads = threads
        self._connect = connect
        self._thread_local = threading.local()
        self._opened: list[SqliteRows] = []

    async def run(self, read: Callable[[SqliteRows], _Result]) -> _Result:
        """Run a function in a thread of the pool, with the connection of the thread, and return its result."""
        return await self._threads.run(self._run_in_thread, read)

    def close(self) -> None:
        """Close all connections; no function may be running."""
        for rows in self._opened:
            rows.close()

    def _run_in_thread(self, read: Callable[[SqliteRows], _Result]) -> _Result:
        rows: SqliteRows | None = getattr(self._thread_local, "rows", None)
        if rows is None:
            rows = self._thread_local.rows = self._connect()
            self._opened.append(rows)
        return read(rows)
