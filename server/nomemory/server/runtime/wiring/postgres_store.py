"""The PostgreSQL storage backend of the message log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from functools import partial

import structlog

from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.postgres.reader import PostgresLexicalIndex
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.store.change_feed import ChangeFeed
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.errors import LogUnusableError
from nomemory.server.store.log_position_file import read_position_file
from nomemory.server.store.position import LogPosition
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.erasure import PostgresLogErasure
from nomemory.server.store.postgres.feed import DatabaseUnavailableError, PostgresChangeFeed, run_blocking
from nomemory.server.store.postgres.followers import load_follower_name, register_follower
from nomemory.server.store.postgres.reader import PostgresLogReader
from nomemory.server.store.postgres.schema import begin_epoch, upgrade_schema
from nomemory.server.store.postgres.writer import PostgresLogWriter
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.retention import RetentionPolicy

_log = structlog.get_logger("log")


class PostgresStore:
    """Implements `LogStore`. The first use creates or migrates the database schema.

    Args:
        directory: the data directory of this server with its indexes.
        url: the connection URL of the PostgreSQL database.
    """

    def __init__(self, settings: Settings, directory: DataDirectory, url: str) -> None:
        self._settings = settings
        self._directory = directory
        self._retention = RetentionPolicy.from_days(settings.retention.days)
        self._database = Database(
            url,
            pool_size=settings.postgres.pool_size,
            connect_timeout_s=settings.postgres.connect_timeout_s,
            statement_timeout_s=settings.postgres.statement_timeout_s,
        )

    def read_position(self) -> LogPosition:
        """Return the identity and position of the message log. Create the message log if the database is empty."""
        run_blocking(upgrade_schema(self._database))
        try:
            with closing(self.make_feed_opener()()) as feed:
                return feed.read_position()
        except DatabaseUnavailableError as error:
            raise LogUnusableError(f"the message log in PostgreSQL cannot be read: {error}") from error

    def begin_epoch(self) -> LogPosition:
        """Start a new epoch of the message log."""
        run_blocking(upgrade_schema(self._database))
        run_blocking(begin_epoch(self._database))
        return self.read_position()

    def open_writer(
        self, announce: Callable[[], None], stack: AsyncExitStack
    ) -> tuple[PostgresLogWriter, PostgresLogErasure]:
        """Open the message log for writes and erasure."""
        if not run_blocking(upgrade_schema(self._database)):
            _log.warning(
                "PostgreSQL runs with fsync=off, so a crash of its host can lose acknowledged messages: set fsync=on"
            )
        name = load_follower_name(self._directory.follower_file)
        has_index = self._settings.vector.qdrant_url is None
        record = read_position_file(self._directory.log_position_file)
        run_blocking(register_follower(self._database, name, record, is_lasting=has_index))
        writer = PostgresLogWriter(
            self._database,
            queue_max=self._settings.log.max_queued_writes,
            queue_max_bytes=self._settings.log.max_queued_write_bytes,
            announce=announce,
            connections=self._settings.postgres.write_connections,
            retention=self._retention,
            extract_tokens=build_token_columns,
        )
        erasable = PostgresLogErasure(self._database, name, is_lasting=has_index)
        stack.push_async_callback(erasable.close)
        stack.push_async_callback(writer.close)
        return writer, erasable

    def open_reader(
        self, damage_registry: DamageRegistry | None, stack: AsyncExitStack, _threads: ReadThreads | None = None
    ) -> LogReader:
        """Open the message log for reads."""
        log = PostgresLogReader(self._database, self._retention, damage_registry)
        stack.push_async_callback(log.close)
        return log

    def open_lexical_index(self, damage_registry: DamageRegistry, stack: AsyncExitStack) -> LexicalIndex:
        """Open the lexical index in the database, with a separate connection pool."""
        pool = self._database.create_pool()
        stack.push_async_callback(pool.close)
        return PostgresLexicalIndex(pool, self._retention, damage_registry)

    def make_feed_opener(self, damage_registry: DamageRegistry | None = None) -> Callable[[], ChangeFeed]:
        """Return a function that opens the change feed of the message log."""
        feed = partial(PostgresChangeFeed, self._database)
        return feed if damage_registry is None else partial(feed, damage_registry)

    def create_shared_index(self, collection: str) -> PostgresSharedIndex | None:
        """Return the state that servers share about a collection on a Qdrant server, or None for the embedded index."""
        if self._settings.vector.qdrant_url is None:
            return None
        return PostgresSharedIndex(self._database, collection, self._settings.postgres.indexer_lock_lease_s)

    def create_inspector(self, damage_registry: DamageRegistry) -> None:
        """Return None, because reads verify messages and PostgreSQL checks its own pages."""
