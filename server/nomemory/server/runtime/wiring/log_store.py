"""The interface of the message log's storage backends, SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import require_extra
from nomemory.server.runtime.wiring.sqlite_store import SqliteStore
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.store.change_feed import ChangeFeed
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.expiry_sweeper import ExpiredMessageDeleter
from nomemory.server.store.position import LogPosition
from nomemory.server.store.protocol import ErasableLog, LogReader, LogWriter
from nomemory.server.store.sqlite.inspection import LogInspector

if TYPE_CHECKING:
    from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex


class QueuedWriter(LogWriter, ExpiredMessageDeleter, Protocol):
    """A writer of the message log that queues writes."""

    @property
    def queued_job_count(self) -> int:
        """The number of writes in the queue."""


class LogStore(Protocol):
    """A storage backend of the message log, which opens the components that access it."""

    def read_position(self) -> LogPosition | None:
        """Return the identity and position of the message log, or None if there is no message log yet.

        Raises:
            LogUnusableError, LogVersionError: the message log cannot be used.
        """

    def begin_epoch(self) -> LogPosition:
        """Start a new epoch of the message log. Create the message log if it does not exist.

        While this method runs, no server may use the message log.

        Raises:
            LogUnusableError, LogVersionError: the message log cannot be used.
        """

    def open_writer(self, announce: Callable[[], None], stack: AsyncExitStack) -> tuple[QueuedWriter, ErasableLog]:
        """Open the message log for writes and erasure.

        Args:
            announce: called after each commit that has changed a message.
            stack: the exit stack that closes the message log.

        Raises:
            LogUnusableError, LogVersionError: the message log cannot be used.
        """

    def open_reader(
        self, damage_registry: DamageRegistry | None, stack: AsyncExitStack, threads: ReadThreads | None = None
    ) -> LogReader:
        """Open the message log for reads.

        Args:
            damage_registry: records the damaged messages that reads find; None disables recording.
            stack: the exit stack that closes the message log; `threads` must be closed first.
            threads: the thread pool for long SQLite statements; None creates a thread for these statements.
        """

    def open_lexical_index(self, damage_registry: DamageRegistry, stack: AsyncExitStack) -> LexicalIndex | None:
        """Open the lexical index in the database, or return None if the backend has no lexical index."""

    def make_feed_opener(self, damage_registry: DamageRegistry | None = None) -> Callable[[], ChangeFeed]:
        """Return a function that opens the change feed, and that can be pickled if `damage_registry` is None."""

    def create_shared_index(self, collection: str) -> PostgresSharedIndex | None:
        """Return the state that servers share about a vector collection, or None if no collection is shared."""

    def create_inspector(self, damage_registry: DamageRegistry) -> LogInspector | None:
        """Return the background check for damage, or None if the backend has no such check."""


def choose_log_store(settings: Settings, directory: DataDirectory) -> LogStore:
    """Return the storage backend that the settings configure.

    Raises:
        ExtraMissingError: the PostgreSQL driver is not installed.
    """
    if settings.server.database_url is None:
        return SqliteStore(settings, directory)
    require_extra("postgres", ("asyncpg",), "NOMEMORY_DATABASE_URL with a database")
    from nomemory.server.runtime.wiring.postgres_store import PostgresStore  # noqa: PLC0415 - its driver is an extra

    return PostgresStore(settings, directory, settings.server.database_url.get_secret_value())
