"""Where the message log is kept: a file in the data directory, or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.protocol import LexicalIndex
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.expiry import ExpiredMessages
from nomemory.server.log.feed import ChangeFeed
from nomemory.server.log.position import LogPosition
from nomemory.server.log.protocol import ErasableLog, LogReader, LogUnusableError, LogWriter
from nomemory.server.settings import Settings

if TYPE_CHECKING:
    from nomemory.server.vector.shared.postgres_index import PostgresSharedIndex

OpenFeed = Callable[[], ChangeFeed]


class QueuedWriter(LogWriter, ExpiredMessages, Protocol):
    """A writer of the log whose queue can be looked at."""

    @property
    def waiting(self) -> int:
        """How many jobs wait."""


class Inspector(Protocol):
    """Looks through the whole log for damage, again and again."""

    async def run(self) -> None:
        """Look until `stop` is called."""

    def stop(self) -> None:
        """Have `run` end."""


class Writing(NamedTuple):
    """The log, opened for writing."""

    writer: QueuedWriter
    erasable: ErasableLog


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

    def writing(self, announce: Callable[[], None], stack: AsyncExitStack) -> Writing:
        """Open the log for writing; the stack closes it.

        Args:
            announce: called after each commit that changed a message.
            stack: takes it down.

        Raises:
            LogUnusableError, LogVersionError: it cannot be used.
        """

    def reading(self, damage: LogDamage | None, stack: AsyncExitStack) -> LogReader:
        """Open the log for reading; the stack closes it."""

    def words(self, damage: LogDamage, stack: AsyncExitStack) -> LexicalIndex | None:
        """Open the index by words that is part of the log; the stack closes it. None: one beside the log follows it."""

    def feed(self, damage: LogDamage | None = None) -> OpenFeed:
        """Return how to open the feed. Without `damage` that can be sent to another process."""

    def shared_index(self, collection: str) -> PostgresSharedIndex | None:
        """Return what is known of an index that several servers fill, by its name on the engine's server.

        None: each server has an index of its own.
        """

    def inspector(self, damage: LogDamage) -> Inspector | None:
        """Return what looks for damage, where anything of ours does."""


_NO_DRIVER = "NOMEMORY_LOG names a database, and its driver is not installed: pip install 'nomemory[postgres]'."


def log_store(settings: Settings, directory: DataDirectory) -> LogStore:
    """Return the store that the settings name.

    Raises:
        LogUnusableError: what it needs is not installed.
    """
    if settings.server.log is None:
        from nomemory.server.composition.sqlite_store import SqliteStore  # noqa: PLC0415 - one of two

        return SqliteStore(settings, directory)
    try:
        from nomemory.server.composition.postgres_store import PostgresStore  # noqa: PLC0415 - its driver is an extra
    except ImportError:
        raise LogUnusableError(_NO_DRIVER) from None
    return PostgresStore(settings, directory, settings.server.log.get_secret_value())
