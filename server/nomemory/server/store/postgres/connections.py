"""Connections to PostgreSQL, and the translation of its errors into faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import asyncpg

from nomemory.server.faults import Fault, Reason

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    _Pool = asyncpg.Pool[asyncpg.Record]

RETRY_AFTER_S: Final = 1.0

CONNECTION_ERRORS: Final = (
    *(OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError),
    asyncpg.InternalClientError,  # the server has just closed the connection
)
"""Errors of a database that is unreachable or has closed the connection."""

DATABASE_WIDE_ERRORS: Final = (
    *CONNECTION_ERRORS,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
)
"""Errors that affect every commit: the database is unreachable, shutting down or out of resources."""

RETRYABLE_ERRORS: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""Errors of a transaction that was rolled back because of a conflict. A retry may succeed."""

ERRORS: Final = (*CONNECTION_ERRORS, asyncpg.PostgresError)
"""All errors that a statement can raise."""

LONG_TIMEOUT_S: Final = 86_400.0
"""Timeout in seconds for statements that process whole tables, in the background or before startup."""


class SequenceBehindError(OSError):
    """The database sequence `log_sequence` is behind the sequence numbers in the message log.

    The error occurs in a copy of the database that was made without the state of database sequences.
    """


@dataclass(frozen=True, slots=True)
class Database:
    """The connection settings of a database.

    Attributes:
        url: the connection URL, which `repr` omits, because it may contain a password.
        pool_size: maximum number of connections of each pool.
        connect_timeout_s: timeout in seconds for opening or acquiring a connection.
        statement_timeout_s: timeout in seconds for a statement.
    """

    url: str = field(repr=False)
    pool_size: int = 10
    connect_timeout_s: float = 5.0
    statement_timeout_s: float = 30.0

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Open a connection.

        Raises:
            ERRORS: the connection cannot be opened.
        """
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
            self.url,
            timeout=self.connect_timeout_s,
            command_timeout=self.statement_timeout_s + self.connect_timeout_s,  # if the database does not respond
            server_settings=self._build_session_settings(),
        )
        return connection

    def create_pool(self) -> ConnectionPool:
        """Return a new connection pool, which belongs to the event loop that uses it first."""
        return ConnectionPool(self)

    def _build_session_settings(self) -> dict[str, str]:
        return {
            "application_name": "nomemory",
            "jit": "off",  # compilation takes longer than these statements
            "statement_timeout": str(int(self.statement_timeout_s * 1000)),
            "idle_in_transaction_session_timeout": str(int(self.statement_timeout_s * 1000)),
        }


class ConnectionPool:
    """A connection pool, which opens connections on demand and replaces broken ones."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._opening = asyncio.Lock()
        self._pool: _Pool | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Acquire a connection for the duration of the context.

        Raises:
            ERRORS: no connection became available in time.
        """
        pool = self._pool or await self._open_pool()
        connection = await pool.acquire(timeout=self._database.connect_timeout_s)
        try:
            yield connection
        finally:
            with contextlib.suppress(*ERRORS):
                await pool.release(connection)

    async def close(self) -> None:
        """Close all connections immediately, without waiting for running statements."""
        if self._pool is not None:
            self._pool.terminate()

    async def _open_pool(self) -> _Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    min_size=0,
                    max_size=self._database.pool_size,
                    connect=lambda *_args, **_options: self._database.connect(),
                    reset=_skip_reset,
                )
            return self._pool


@contextmanager
def translate_errors(operation: str) -> Iterator[None]:
    """Translate database errors into faults; `operation` is "read" or "written".

    Raises:
        Fault: STORAGE_UNAVAILABLE, with a retry delay.
    """
    try:
        yield
    except ERRORS as error:
        raise make_storage_fault(error, operation) from error


def make_storage_fault(error: BaseException, operation: str) -> Fault:
    """Return the fault for a database error, without the text of the error, which may quote a message."""
    cause = getattr(error, "sqlstate", None) or type(error).__name__
    return Fault(
        Reason.ERROR_REASON_STORAGE_UNAVAILABLE,
        f"the message log cannot be {operation}",
        metadata={"cause": cause},
        retry_after_s=RETRY_AFTER_S,
    )


async def _skip_reset(_connection: object) -> None:
    """Skip the reset of a released connection. Callers restore changed settings, and a reset takes a round trip."""
