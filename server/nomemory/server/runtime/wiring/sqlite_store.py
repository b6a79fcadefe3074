"""The SQLite storage backend of the message log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from functools import partial
from typing import Final

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.store.change_feed import ChangeFeed
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.position import LogPosition
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.erasure import SqliteLogErasure
from nomemory.server.store.sqlite.feed import SqliteChangeFeed
from nomemory.server.store.sqlite.inspection import LogInspector
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.schema import begin_epoch, open_writable_log, read_log_position
from nomemory.server.store.sqlite.writer import SqliteLogWriter

_CHECK_INTERVAL_S: Final = 86_400.0
"""Interval of the full check for damage, in seconds. The first check runs at startup."""


class SqliteStore:
    """Implements `LogStore`."""

    def __init__(self, settings: Settings, directory: DataDirectory) -> None:
        self._settings = settings
        self._path = directory.log_file
        self._retention = RetentionPolicy.from_days(settings.retention.days)

    def read_position(self) -> LogPosition | None:
        """Return the identity and position of the message log, or None if no log exists."""
        return read_log_position(self._path)

    def begin_epoch(self) -> LogPosition:
        """Start a new epoch of the message log."""
        with closing(open_writable_log(self._path)) as connection:
            return begin_epoch(connection)

    def open_writer(
        self, announce: Callable[[], None], stack: AsyncExitStack
    ) -> tuple[SqliteLogWriter, SqliteLogErasure]:
        """Open the message log for writes and erasure. The message log is created if it does not exist."""
        writer = SqliteLogWriter(
            self._path,
            queue_max=self._settings.log.max_queued_writes,
            queue_max_bytes=self._settings.log.max_queued_write_bytes,
            announce=announce,
            retention=self._retention,
        )
        erasable = SqliteLogErasure(writer, self._path, self._settings.erasure.max_vacuum_bytes)
        stack.callback(erasable.close)  # runs after all connections to the file are closed
        stack.enter_context(closing(writer))
        return writer, erasable

    def open_reader(
        self, damage_registry: DamageRegistry | None, stack: AsyncExitStack, threads: ReadThreads | None = None
    ) -> LogReader:
        """Open the message log for reads."""
        log = SqliteLogReader(self._path, self._retention, damage_registry, threads)
        stack.push_async_callback(log.close)
        return log

    def open_lexical_index(self, _damage: DamageRegistry, _stack: AsyncExitStack) -> None:
        """Return None, because the lexical index is a Tantivy index in the data directory."""

    def make_feed_opener(self, damage_registry: DamageRegistry | None = None) -> Callable[[], ChangeFeed]:
        """Return a function that opens the change feed of the message log."""
        return (
            partial(SqliteChangeFeed, self._path)
            if damage_registry is None
            else partial(SqliteChangeFeed, self._path, damage_registry)
        )

    def create_shared_index(self, collection: str) -> None:
        """Return None, because a SQLite message log belongs to a single server."""

    def create_inspector(self, damage_registry: DamageRegistry) -> LogInspector:
        """Return the background check for damage in all messages and in the database file."""
        return LogInspector(self._path, damage_registry, _CHECK_INTERVAL_S, self._settings.log.check_pause_s)
