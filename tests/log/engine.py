"""The storage engines that the tests of the message log run with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from postgres import PrivatePostgres, schema_url

from nomemory.server import wire
from nomemory.server.message import LoggedMessage, Message
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.store.change_feed import ChangeFeed
from nomemory.server.store.expiry_sweeper import ExpiredMessageDeleter
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.feed import PostgresChangeFeed
from nomemory.server.store.postgres.reader import PostgresLogReader
from nomemory.server.store.postgres.schema import upgrade_schema
from nomemory.server.store.postgres.writer import PostgresLogWriter
from nomemory.server.store.protocol import LogReader, LogWriter
from nomemory.server.store.results import OnConflict, WriteOutcome, WriteReceipt
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.feed import SqliteChangeFeed
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.writer import SqliteLogWriter

FOREVER = RetentionPolicy()


@dataclass(frozen=True)
class Log:
    """An open log with its writer, reader and change feed."""

    writer: LogWriter
    expired: ExpiredMessageDeleter
    reader: LogReader
    feed: ChangeFeed
    close: Callable[[], Awaitable[None]]

    async def write(self, *messages: Message, on_conflict: OnConflict = OnConflict.REFUSE) -> tuple[WriteOutcome, ...]:
        return (await self.writer.write(messages, on_conflict=on_conflict)).outcomes

    async def write_nameless(self, *messages: Message, request_id: str = "") -> WriteReceipt:
        nameless = [message._replace(message_id="") for message in messages]
        return await self.writer.write(nameless, on_conflict=OnConflict.REFUSE, request_id=request_id)

    async def erase(self, *users: str) -> None:
        for user in users:
            await self.writer.erase(user)

    async def sweep(self, limit: int = 100) -> int:
        removed, after = 0, ""
        while True:
            swept = await self.expired.delete_expired_messages(after, limit)
            removed += swept.removed
            if swept.after is None:
                return removed
            after = swept.after

    async def everything(self, user: str = "u", message_filter: Filter = EVERYTHING) -> list[Message]:
        pinned = await self.reader.read_sequence()
        return decoded(await self.reader.read_page(user, message_filter, before=None, pinned=pinned, limit=10_000))


def decoded(messages: list[LoggedMessage]) -> list[Message]:
    return [wire.decode(message.wire) for message in messages]


class Engine(Protocol):
    """Opens the log of a directory, and creates it first if necessary."""

    async def __call__(self, directory: Path, retention: RetentionPolicy = FOREVER) -> Log:
        """Open the log."""


async def open_sqlite_log(directory: Path, retention: RetentionPolicy = FOREVER) -> Log:
    """Open a SQLite log."""
    path = directory / "log.db"
    writer = SqliteLogWriter(path, queue_max=100, queue_max_bytes=10**9, announce=lambda: None, retention=retention)
    reader, feed = SqliteLogReader(path, retention), SqliteChangeFeed(path)

    async def close() -> None:
        feed.close()
        await reader.close()
        writer.close()

    return Log(writer, writer, reader, feed, close)


@dataclass(frozen=True)
class PostgresEngine:
    """Opens PostgreSQL logs, with a schema for each directory."""

    server: PrivatePostgres

    def database(self, directory: Path) -> Database:
        """Return the database of the log of a directory."""
        return Database(schema_url(self.server, f"log_{sha256(str(directory).encode()).hexdigest()[:20]}"))

    async def __call__(self, directory: Path, retention: RetentionPolicy = FOREVER) -> Log:
        database = self.database(directory)
        await upgrade_schema(database)
        writer = PostgresLogWriter(
            database,
            queue_max=100,
            queue_max_bytes=10**9,
            extract_tokens=build_token_columns,
            announce=lambda: None,
            retention=retention,
        )
        reader, feed = PostgresLogReader(database, retention), PostgresChangeFeed(database)

        async def close() -> None:
            feed.close()
            await reader.close()
            await writer.close()

        return Log(writer, writer, reader, feed, close)


ENGINES: Final = ("sqlite", "postgres")
"""The engines by name."""
