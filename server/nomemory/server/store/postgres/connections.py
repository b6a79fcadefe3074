"""Connections to PostgreSQL, and what becomes of its errors."""

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
    asyncpg.InternalClientError,  # a statement on a connection that the database has just ended
)
"""The database cannot be reached, or the connection to it broke."""

DATABASE_WIDE_ERRORS: Final = (*CONNECTION_ERRORS, asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError)
"""What stops a commit whatever is in it: the database is away, shuts down, is full, or gave a statement up."""

RETRYABLE_ERRORS: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""The database undid a commit for the sake of another. Made again it may succeed."""

ERRORS: Final = (*CONNECTION_ERRORS, asyncpg.PostgresError)
"""Whatever a statement may raise."""

LONG_TIMEOUT_S: Final = 86_400.0
"""Seconds that a statement may take that goes through whole tables, in the background or before a server starts."""


class SequenceBehindError(OSError):
    """The database gives out numbers that it gave out before, as a copy does that was made without its sequences."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where the database is, and how it is used.

    `url` may hold a password: it is never shown. The times are seconds; `pool_max` is connections.
    """

    url: str = field(repr=False)
    pool_max: int = 10
    connect_timeout_s: float = 5.0
    statement_timeout_s: float = 30.0

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Open a connection.

        Raises:
            one of ERRORS.
        """
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
            self.url,
            timeout=self.connect_timeout_s,
            command_timeout=self.statement_timeout_s + self.connect_timeout_s,  # where not even the database answers
            server_settings=self._session(),
        )
        return connection

    def pool(self) -> Pool:
        """Return a pool of connections that belongs to the event loop in which it is used first."""
        return Pool(self)

    def _session(self) -> dict[str, str]:
        return {
            "application_name": "nomemory",
            "jit": "off",  # compiling takes longer than any of these statements
            "statement_timeout": str(int(self.statement_timeout_s * 1000)),
            "idle_in_transaction_session_timeout": str(int(self.statement_timeout_s * 1000)),
        }


class Pool:
    """Connections, opened as they are needed; those that broke are replaced.

    Args:
        database: where they lead.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._opening = asyncio.Lock()
        self._pool: _Pool | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection; wait for one as long as a connection may take.

        Raises:
            one of ERRORS.
        """
        pool = self._pool or await self._opened()
        connection = await pool.acquire(timeout=self._database.connect_timeout_s)
        try:
            yield connection
        finally:
            with contextlib.suppress(*ERRORS):
                await pool.release(connection)

    async def close(self) -> None:
        """Close all connections at once; what they are doing is abandoned."""
        if self._pool is not None:
            self._pool.terminate()

    async def _opened(self) -> _Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    min_size=0,
                    max_size=self._database.pool_max,
                    connect=lambda *_args, **_options: self._database.connect(),
                    reset=_keep,
                )
            return self._pool


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn errors of the database into a fault that says what cannot be done.

    Raises:
        Fault: STORAGE_UNAVAILABLE, with a time after which a retry may help.
    """
    try:
        yield
    except ERRORS as error:
        raise storage_fault(error, what) from error


def storage_fault(error: BaseException, what: str) -> Fault:
    """Return the fault that an error of the database is. Its own words stay here: they may quote a message."""
    cause = getattr(error, "sqlstate", None) or type(error).__name__
    return Fault(
        Reason.ERROR_REASON_STORAGE_UNAVAILABLE,
        f"the message log cannot be {what}",
        metadata={"cause": cause},
        retry_after_s=RETRY_AFTER_S,
    )


async def _keep(_connection: object) -> None:
    """Leave a connection as it is: nothing here changes a session, and to reset it costs a round trip."""
