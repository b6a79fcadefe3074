"""A message log in the data directory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from functools import partial

from nomemory.server.composition.log_store import Inspector, OpenFeed, Writing
from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.position import LogPosition
from nomemory.server.log.protocol import LogReader
from nomemory.server.log.sqlite.erasure import SqliteLogErasure
from nomemory.server.log.sqlite.feed import SqliteChangeFeed
from nomemory.server.log.sqlite.inspection import LogInspector
from nomemory.server.log.sqlite.reader import SqliteLogReader
from nomemory.server.log.sqlite.schema import begin_epoch, open_for_writing, position_at
from nomemory.server.log.sqlite.writer import SqliteLogWriter
from nomemory.server.settings import Settings


class SqliteStore:
    """Implements `LogStore`.

    Args:
        settings: the configuration.
        directory: whose log it is.
    """

    def __init__(self, settings: Settings, directory: DataDirectory) -> None:
        self._settings = settings
        self._path = directory.log
        self._lifetimes = Lifetimes.of_days(settings.retention.days)

    def position(self) -> LogPosition | None:
        """Return which log the file holds, and how far; None if there is none."""
        return position_at(self._path)

    def begin_epoch(self) -> LogPosition:
        """Give the log a new epoch."""
        with closing(open_for_writing(self._path)) as connection:
            return begin_epoch(connection)

    def writing(self, announce: Callable[[], None], stack: AsyncExitStack) -> Writing:
        """Open the log for writing, creating it if need be."""
        writer = SqliteLogWriter(
            self._path,
            queue_max=self._settings.log.queue_max,
            queue_max_bytes=self._settings.log.queue_max_bytes,
            announce=announce,
            lifetimes=self._lifetimes,
        )
        erasable = SqliteLogErasure(writer, self._path, self._settings.erasure.vacuum_max_bytes)
        stack.callback(erasable.close)  # after every connection to the file
        stack.enter_context(closing(writer))
        return Writing(writer, erasable)

    def reading(self, damage: LogDamage | None, stack: AsyncExitStack) -> LogReader:
        """Open the log for reading."""
        log = SqliteLogReader(self._path, self._lifetimes, damage)
        stack.push_async_callback(log.close)
        return log

    def words(self, _damage: LogDamage, _stack: AsyncExitStack) -> None:
        """Return nothing: an index in the data directory follows the log."""

    def feed(self, damage: LogDamage | None = None) -> OpenFeed:
        """Return how to open the feed."""
        return (
            partial(SqliteChangeFeed, self._path) if damage is None else partial(SqliteChangeFeed, self._path, damage)
        )

    def shared_index(self, collection: str) -> None:
        """Return nothing: one server has the log, and fills its index."""

    def inspector(self, damage: LogDamage) -> Inspector:
        """Return what checks all messages and the file."""
        return LogInspector(self._path, damage, self._settings.check.interval_s, self._settings.check.pause_s)
