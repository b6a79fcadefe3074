"""A connection to PostgreSQL for callers that block: threads, and what runs before an event loop does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from nomemory.server.log.postgres_conditions import Value, numbered
from nomemory.server.log.postgres_connections import ERRORS, Database

if TYPE_CHECKING:
    import asyncpg

Answer = TypeVar("Answer")

# Any: each statement says what its columns are.
Row = Any


class DatabaseAwayError(ConnectionError):
    """The database could not answer; the text is the kind of error. It may be tried again."""


class LoopThread:
    """An event loop in a thread of its own, for coroutines that somebody waits for in another."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres", daemon=True)
        self._thread.start()

    def result(self, coroutine: Coroutine[None, None, Answer]) -> Answer:
        """Run a coroutine there and return what it returns, or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingConnection:
    """A connection that is opened when it is needed, and again after it broke. One caller at a time.

    Args:
        database: where it leads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = LoopThread()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    def fetch(self, statement: str, *values: Value) -> list[Row]:
        """Return all rows of a statement with question marks.

        Raises:
            DatabaseAwayError: it could not be answered.
        """
        try:
            return self._thread.result(self._fetch(numbered(statement), values))
        except ERRORS as error:
            raise DatabaseAwayError(getattr(error, "sqlstate", None) or type(error).__name__) from error

    def close(self) -> None:
        """Close the connection."""
        self._thread.result(self._hang_up())
        self._thread.close()

    async def _fetch(self, statement: str, values: Sequence[Value]) -> list[Row]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
        return list(await self._connection.fetch(statement, *values))

    async def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


def wait_for(coroutine: Coroutine[None, None, Answer]) -> Answer:
    """Run a coroutine in another thread, and block this one until it is done."""
    with closing(LoopThread()) as thread:
        return thread.result(coroutine)
