"""Where the message log is kept: a file in the data directory, or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import need_extra
from nomemory.server.runtime.wiring.sqlite_store import SqliteStore
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.store.change_feed import ChangeFeed
from nomemory.server.store.damage import LogDamage
from nomemory.server.store.expiry_sweeper import ExpiredMessages
from nomemory.server.store.position import LogPosition
from nomemory.server.store.protocol import ErasableLog, LogReader, LogWriter
from nomemory.server.store.sqlite.inspection import LogInspector

if TYPE_CHECKING:
    from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex


class QueuedWriter(LogWriter, ExpiredMessages, Protocol):
    """A writer of the log whose queue can be looked at."""

    @property
    def waiting(self) -> int:
        """How many jobs wait."""


class LogStore(Protocol):
    """Opens the parts of a log."""

    def position(self) -> LogPosition | None:
        """Return which log there is, and how far; None: there is none yet.

        Raises:
            LogUnusableError, LogVersionError: it cannot be used.
        """

    def begin_epoch(self) -> LogPosition:
        """Give the log, or a new one where there is none, a new epoch. No server may be running.

        Raises:
            LogUnusableError, LogVersionError: it cannot be used.
        """

    def writing(self, announce: Callable[[], None], stack: AsyncExitStack) -> tuple[QueuedWriter, ErasableLog]:
        """Open the log for writing, and for erasing from it; the stack closes it.

        Args:
            announce: called after each commit that changed a message.
            stack: takes it down.

        Raises:
            LogUnusableError, LogVersionError: it cannot be used.
        """

    def reading(self, damage: LogDamage | None, stack: AsyncExitStack, threads: ReadThreads | None = None) -> LogReader:
        """Open the log for reading; the stack closes it.

        Args:
            damage: told of what is found to be damaged.
            stack: closes it; close the threads before it.
            threads: run long statements of SQLite; None: a thread of the log's own.
        """

    def words(self, damage: LogDamage, stack: AsyncExitStack) -> LexicalIndex | None:
        """Open the index by words that is part of the log; the stack closes it. None: one beside the log follows it."""

    def feed(self, damage: LogDamage | None = None) -> Callable[[], ChangeFeed]:
        """Return a function that opens the feed. Without `damage` it can be pickled for a worker process."""

    def shared_index(self, collection: str) -> PostgresSharedIndex | None:
        """Return what is known of an index that several servers fill, by its name on the engine's server.

        None: each server has an index of its own.
        """

    def inspector(self, damage: LogDamage) -> LogInspector | None:
        """Return what looks for damage, where anything of ours does."""


def log_store(settings: Settings, directory: DataDirectory) -> LogStore:
    """Return the store that the settings name.

    Raises:
        ExtraMissingError: the driver of the database is not installed.
    """
    if settings.server.database_url is None:
        return SqliteStore(settings, directory)
    need_extra("postgres", ("asyncpg",), "NOMEMORY_DATABASE_URL with a database")
    from nomemory.server.runtime.wiring.postgres_store import PostgresStore  # noqa: PLC0415 - its driver is an extra

    return PostgresStore(settings, directory, settings.server.database_url.get_secret_value())
