"""The storage backend of the message log: SQLite or PostgreSQL."""

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
from nomemory.server.store.expiry_sweeper import ExpiredMessages
from nomemory.server.store.position import LogPosition
from nomemory.server.store.protocol import ErasableLog, LogReader, LogWriter
from nomemory.server.store.sqlite.inspection import LogInspector

if TYPE_CHECKING:
    from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex


class QueuedWriter(LogWriter, ExpiredMessages, Protocol):
    """A log writer with a queue."""

    @property
    def waiting(self) -> int:
        """The number of queued writes."""


class LogStore(Protocol):
    """A storage backend of the message log."""

    def read_position(self) -> LogPosition | None:
        """Return the identity and position of the log, or None if there is no log yet.

        Raises:
            LogUnusableError, LogVersionError: the log cannot be used.
        """

    def begin_epoch(self) -> LogPosition:
        """Start a new epoch. Create the log if it does not exist. No server may be running.

        Raises:
            LogUnusableError, LogVersionError: the log cannot be used.
        """

    def open_writer(self, announce: Callable[[], None], stack: AsyncExitStack) -> tuple[QueuedWriter, ErasableLog]:
        """Open the log for writes and erasure.

        Args:
            announce: called after each commit that changed a message.
            stack: closes the log.

        Raises:
            LogUnusableError, LogVersionError: the log cannot be used.
        """

    def open_reader(
        self, damage_registry: DamageRegistry | None, stack: AsyncExitStack, threads: ReadThreads | None = None
    ) -> LogReader:
        """Open the log for reads.

        Args:
            damage_registry: receives the reports of damaged messages.
            stack: closes the log. Close `threads` first.
            threads: the thread pool for long SQLite statements; None uses a separate thread.
        """

    def open_lexical_index(self, damage_registry: DamageRegistry, stack: AsyncExitStack) -> LexicalIndex | None:
        """Open the lexical index in the log's database, or return None if the backend has none."""

    def feed_opener(self, damage_registry: DamageRegistry | None = None) -> Callable[[], ChangeFeed]:
        """Return a function that opens the change feed. Without `damage_registry`, the function can be pickled."""

    def create_shared_index(self, collection: str) -> PostgresSharedIndex | None:
        """Return the coordination state of a shared vector collection, or None without a shared collection."""

    def create_inspector(self, damage_registry: DamageRegistry) -> LogInspector | None:
        """Return the background check for damage, or None if the backend has none."""


def log_store(settings: Settings, directory: DataDirectory) -> LogStore:
    """Return the storage backend of the settings.

    Raises:
        ExtraMissingError: the PostgreSQL driver is not installed.
    """
    if settings.server.database_url is None:
        return SqliteStore(settings, directory)
    require_extra("postgres", ("asyncpg",), "NOMEMORY_DATABASE_URL with a database")
    from nomemory.server.runtime.wiring.postgres_store import PostgresStore  # noqa: PLC0415 - its driver is an extra

    return PostgresStore(settings, directory, settings.server.database_url.get_secret_value())
