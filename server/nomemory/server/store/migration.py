"""Migrate the message log of a data directory to PostgreSQL.

The copy is a single transaction, so an interrupted migration leaves the database empty and can be run again. The data
directory is marked as migrated before the commit, so that servers can never start on both message logs. A migration
that is killed after marking the directory can also be run again.

The message log keeps its identity, sequence numbers and ids, so cursors, write tokens and the vector index stay valid.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import asyncpg

from nomemory.server import wire
from nomemory.server.indexing.vector.backlog_migration import split_backlogs_into_buckets
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.checksums import compute_checksum
from nomemory.server.store.erasure_register import EpochStart, ErasureEntry
from nomemory.server.store.position import LogIdentity, LogPosition
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.display_url import redact_database_url
from nomemory.server.store.postgres.followers import load_follower_name
from nomemory.server.store.postgres.schema import LEXICAL_INDEX, upgrade_schema
from nomemory.server.store.postgres.transaction import encode_id_number
from nomemory.server.store.sqlite.erasure_register import read_epochs, read_erasures
from nomemory.server.store.sqlite.schema import (
    MIGRATED_TO,
    configure_durability,
    format_column_list,
    open_writable_log,
    put_meta,
    read_bucket_state,
    read_meta,
    read_position,
)
from nomemory.server.store.tables import MESSAGES, TABLES, Row, Table

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_PAGE_ROWS: Final = 500
_DIGEST_BYTES: Final = 16

_EMPTY_SOURCE: Final = "there are no messages to migrate in {root}"
_MIGRATED_ELSEWHERE: Final = "the message log of {root} was migrated to {destination} and cannot be migrated again"
_TARGET_NOT_EMPTY: Final = "{destination} already has a message log. Choose an empty database, or an empty schema in it"
_DAMAGED: Final = """\
messages with a wrong checksum: {count:,}. Delete them with `nomemory doctor --data {root} --delete-damaged`, or \
restore a backup with `nomemory restore`; then run this command again. Nothing was migrated"""
_DIFFERENT: Final = """\
table {table}: {read.rows:,} rows were read and {stored.rows:,} stored, and their digests differ. Nothing was \
migrated; run this command again"""

# Every write first locks or changes a row of one of these tables. Reads are not blocked.
_LOCK: Final = "LOCK TABLE log_state, followers, buckets IN EXCLUSIVE MODE"
_IDENTITY: Final = "SELECT log_id, epoch FROM log_state"
_IS_EMPTY: Final = """
SELECT NOT EXISTS (SELECT 1 FROM users) AND NOT EXISTS (SELECT 1 FROM followers)
  AND NOT EXISTS (SELECT 1 FROM buckets WHERE sequence > 0 OR last_id <> '')
"""

ReportProgress = Callable[[int, int], None]
"""Called with the number of copied messages and the total number of messages."""


class MigrationError(Exception):
    """The message log cannot be migrated. The error message states the reason and what to do."""


@dataclass(slots=True)
class RowDigest:
    """The number of rows of a table, and a digest of the rows that does not depend on their order."""

    rows: int = 0
    total: int = 0

    def add(self, row: Row) -> None:
        """Add a row to the digest."""
        digest = blake2b(repr(row).encode(), digest_size=_DIGEST_BYTES).digest()
        self.rows += 1
        self.total = (self.total + int.from_bytes(digest, "big")) % 2 ** (8 * _DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    """The result of migrating a message log to PostgreSQL.

    Attributes:
        was_complete: whether an earlier run had already completed the migration.
    """

    position: LogPosition
    messages: int
    was_complete: bool


async def migrate_log(
    directory: DataDirectory, database: Database, report_progress: ReportProgress
) -> MigrationOutcome:
    """Copy a data directory's message log to an empty database, verify the copy, and mark the directory as migrated.

    Raises:
        MigrationError, DataDirectoryBusyError, LogUnusableError, LogVersionError: the message log cannot be migrated.
        sqlite3.Error, OSError, or an error of asyncpg: the message log cannot be read, or the database cannot be
            written.
    """
    with directory.lock(), _open_source(directory) as source:
        await upgrade_schema(database)
        connection = await database.connect()
        try:
            async with connection.transaction():
                return await _Migration(
                    directory, source, connection, redact_database_url(database.url)
                ).copy_and_verify(report_progress)
        finally:
            connection.terminate()


@contextmanager
def _open_source(directory: DataDirectory) -> Iterator[sqlite3.Connection]:
    """Open the message log of a locked data directory, even if it is marked as migrated."""
    if not directory.log_file.exists() or not directory.log_file.stat().st_size:
        raise MigrationError(_EMPTY_SOURCE.format(root=directory.root))
    with closing(sqlite3.connect(directory.log_file, isolation_level=None)) as source:
        if read_meta(source, MIGRATED_TO) is None:
            open_writable_log(directory.log_file).close()  # upgrades its schema
        configure_durability(source)
        yield source


@dataclass(frozen=True, slots=True)
class _Migration:
    """A migration to PostgreSQL within one transaction.

    Attributes:
        destination: the URL of the database without credentials.
    """

    directory: DataDirectory
    source: sqlite3.Connection
    target: Connection
    destination: str

    async def copy_and_verify(self, report_progress: ReportProgress) -> MigrationOutcome:
        log = read_position(self.source)
        (messages,) = self.source.execute("SELECT count(*) FROM messages").fetchone()
        migrated_to = read_meta(self.source, MIGRATED_TO)
        if migrated_to not in {None, self.destination}:
            raise MigrationError(_MIGRATED_ELSEWHERE.format(root=self.directory.root, destination=migrated_to))
        if not log.sequence:
            raise MigrationError(_EMPTY_SOURCE.format(root=self.directory.root))
        await self.target.execute(_LOCK)
        if migrated_to and LogIdentity(*(await self.target.fetchrow(_IDENTITY) or ())) == log.identity:
            return MigrationOutcome(log, messages, was_complete=True)
        if not await self.target.fetchval(_IS_EMPTY):
            raise MigrationError(_TARGET_NOT_EMPTY.format(destination=self.destination))
        await self._copy_tables(messages, report_progress)
        await self._copy_state(log)
        self._mark_migrated()
        return MigrationOutcome(log, messages, was_complete=False)

    async def _copy_tables(self, messages: int, report_progress: ReportProgress) -> None:
        """Copy all rows, then compare the copies with the originals.

        The lexical index is built after the copy, because updating it for each row would take longer.
        """
        await self.target.execute("DROP INDEX IF EXISTS messages_by_words")
        digests = [
            (table, await self._copy_table(table, lambda copied: report_progress(copied, messages))) for table in TABLES
        ]
        await self.target.execute(LEXICAL_INDEX)
        await self.target.execute(f"ANALYZE {', '.join(table.name for table in TABLES)}")
        for table, digest in digests:
            stored = await self._compute_copy_digest(table)
            if stored != digest:
                raise MigrationError(_DIFFERENT.format(table=table.name, read=digest, stored=stored))

    async def _copy_table(self, table: Table, report_copied: Callable[[int], None]) -> RowDigest:
        digest, damaged = RowDigest(), 0

        def records() -> Iterator[Row]:
            nonlocal damaged
            for row in self.source.execute(f"SELECT {format_column_list(table.columns)} FROM {table.name}"):  # noqa: S608 - no user input
                digest.add(row)
                if table is not MESSAGES:
                    yield (compute_bucket(row[user_column]), *row)
                elif _is_intact(row):
                    yield (compute_bucket(row[user_column]), *row, *build_token_columns(wire.decode(row[wire_column])))
                    if not digest.rows % _PAGE_ROWS:
                        report_copied(digest.rows)
                else:
                    damaged += 1

        user_column = table.columns.index("user_id")
        wire_column = MESSAGES.columns.index("wire")
        columns = ["bucket", *table.columns, *(("keys", "tokens") if table is MESSAGES else ())]
        await self.target.copy_records_to_table(table.name, records=records(), columns=columns)
        if damaged:
            raise MigrationError(_DAMAGED.format(count=damaged, root=self.directory.root))
        return digest

    async def _compute_copy_digest(self, table: Table) -> RowDigest:
        digest = RowDigest()
        statement = f"SELECT {', '.join(table.columns)} FROM {table.name}"  # noqa: S608 - no user input
        cursor = await self.target.cursor(statement)
        while rows := await cursor.fetch(_PAGE_ROWS):
            for row in rows:
                digest.add(tuple(row))
        return digest

    async def _copy_state(self, log: LogPosition) -> None:
        """Copy the state of the message log, and register this server as a follower.

        Removal records are then kept until the indexes of this server have applied them.
        """
        last_id = encode_id_number(read_bucket_state(self.source).last_id)
        await self.target.execute("UPDATE log_state SET log_id = $1, epoch = $2", *log.identity)
        await self.target.execute("UPDATE buckets SET sequence = $1, last_id = $2", log.sequence, last_id)
        await self.target.execute("SELECT setval('log_sequence', $1)", log.sequence)
        await self.target.execute(
            "INSERT INTO followers (name) VALUES ($1)", load_follower_name(self.directory.follower_file)
        )
        await self._copy_register()

    async def _copy_register(self) -> None:
        """Copy the register of erasures, and the epochs that it refers to."""
        await self.target.execute("DELETE FROM epochs")
        await self.target.copy_records_to_table(
            "epochs", records=read_epochs(self.source), columns=list(EpochStart._fields)
        )
        await self.target.copy_records_to_table(
            "erasures", records=read_erasures(self.source), columns=list(ErasureEntry._fields)
        )

    def _mark_migrated(self) -> None:
        """Mark the SQLite message log as migrated.

        The lexical index is deleted, and the backlog of the vector index is split into buckets.
        """
        put_meta(self.source, MIGRATED_TO, self.destination)
        shutil.rmtree(self.directory.lexical_index, ignore_errors=True)
        split_backlogs_into_buckets(self.directory.vector_collections)


def _is_intact(message: Row) -> bool:
    user_id, _, _, sequence, _, _, wire_bytes, _, expected = message
    return compute_checksum(user_id, sequence, wire_bytes) == int(expected)
