"""A lexical index in PostgreSQL that tests fill directly with given sequences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from lexical.engine import Engine, OpenIndex
from postgres import PrivatePostgres, fresh_schema

from nomemory.server.message import Message
from nomemory.server.metadata_hashes import compute_entry_hashes
from nomemory.server.search.lexical.postgres.reader import PostgresLexicalIndex
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.checksums import compute_checksum
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.schema import upgrade_schema

_ADD = """
INSERT INTO messages (bucket, user_id, ts_us, message_id, sequence, expire_us, checksum, role, conversation_id, wire,
  keys, tokens)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '', $10, $11)
"""
_ADD_ENTRY = "INSERT INTO metadata_entries (bucket, user_id, mark, ts_us, message_id) VALUES ($1, $2, $3, $4, $5)"
_REMOVE = "DELETE FROM messages WHERE sequence = ANY($1)"
_COUNT = """
INSERT INTO users (bucket, user_id, latest_sequence, messages)
SELECT bucket, user_id, $1, count(*) FROM messages WHERE user_id = ANY($2) GROUP BY bucket, user_id
ON CONFLICT (bucket, user_id) DO UPDATE SET latest_sequence = $1, messages = excluded.messages
"""


class OpenPostgresIndex:
    """An index in a separate schema."""

    def __init__(self, database: Database) -> None:
        self._pool = database.create_pool()
        self._users = dict[int, str]()
        self.reader = PostgresLexicalIndex(self._pool)

    async def apply(self, added: Mapping[int, Message], removed: Collection[int], applied: int) -> None:
        """Add and remove versions in one transaction."""
        self._users |= {sequence: message.user_id for sequence, message in added.items()}
        users = {self._users[sequence] for sequence in (*added, *removed)}
        async with self._pool.connection() as connection, connection.transaction():
            await connection.executemany(_ADD, [_row(*item) for item in added.items()])
            await connection.executemany(_ADD_ENTRY, [row for item in added.items() for row in _entries(*item)])
            await connection.execute(_REMOVE, list(removed))
            await connection.execute(_COUNT, applied, list(users))

    async def another_reader(self) -> PostgresLexicalIndex:
        """Return a further reader."""
        return PostgresLexicalIndex(self._pool)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()


def engine_of(server: PrivatePostgres) -> Engine:
    """Return a function that opens an index in a new schema of a server."""

    async def opened(_directory: Path) -> OpenIndex:
        database = Database(fresh_schema(server))
        await upgrade_schema(database)
        return OpenPostgresIndex(database)

    return opened


def _row(sequence: int, message: Message) -> tuple[object, ...]:
    keys, tokens = build_token_columns(message)
    key = (compute_bucket(message.user_id), message.user_id, message.ts_us, f"m{sequence}", sequence, message.expire_us)
    return (
        *key,
        compute_checksum(message.user_id, sequence, b""),
        message.role.value,
        message.conversation_id,
        keys,
        tokens,
    )


def _entries(sequence: int, message: Message) -> list[tuple[object, ...]]:
    return [
        (compute_bucket(message.user_id), message.user_id, bytes.fromhex(mark), message.ts_us, f"m{sequence}")
        for mark in compute_entry_hashes(message.metadata.items())
    ]
