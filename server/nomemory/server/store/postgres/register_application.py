"""Export the register of erasures of a PostgreSQL message log, and apply an exported register."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.store.erasure_register import (
    AppliedErasures,
    ErasureEntry,
    RegisterKey,
    resolve_affected_sequences,
)
from nomemory.server.store.postgres.connections import LONG_TIMEOUT_S, Database
from nomemory.server.store.postgres.erasure_register import (
    DIGEST_OF_MESSAGE,
    DIGEST_OF_USER,
    merge_erasures,
    read_epochs,
    read_erasures,
    read_register_key,
)
from nomemory.server.store.postgres.schema import open_connection, upgrade_schema
from nomemory.server.store.postgres.transaction import ExtractTokens, PostgresTransaction
from nomemory.server.store.register_file import RegisterFile, read_register, write_register
from nomemory.server.store.retention import RetentionPolicy

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import Connection

_BATCH: Final = 1_000
_CREATE: Final = "CREATE TEMP TABLE affected (digest bytea PRIMARY KEY, until bigint NOT NULL)"
_INSERT: Final = """
INSERT INTO affected SELECT * FROM unnest($1::bytea[], $2::bigint[])
ON CONFLICT (digest) DO UPDATE SET until = greatest(affected.until, excluded.until)
"""
_USERS: Final = f"""
SELECT user_id, until FROM users JOIN affected ON digest = {DIGEST_OF_USER} WHERE messages > 0 ORDER BY user_id
"""  # noqa: S608 - no user input
_MESSAGES: Final = f"""
SELECT user_id, message_id, until FROM messages JOIN affected ON digest = {DIGEST_OF_MESSAGE} WHERE sequence <= until
ORDER BY user_id, message_id
"""  # noqa: S608 - no user input
_LATEST: Final = "SELECT max(sequence) FROM buckets"


async def export_register(database: Database, path: Path) -> int:
    """Write the register of erasures of a database to a file, and return the number of entries.

    Raises:
        LogUnusableError, LogVersionError: the database is unavailable or unsuitable.
        OSError: the file cannot be written.
    """
    await upgrade_schema(database)
    now_us = time.time_ns() // 1_000
    async with open_connection(database) as connection, connection.transaction(isolation="repeatable_read"):
        key, epochs = await read_register_key(connection), await read_epochs(connection)
        erasures = [erasure async for erasure in read_erasures(connection)]
    return write_register(path, key, epochs[0].began_us, erasures, now_us)


async def apply_register(
    database: Database, path: Path, extract_tokens: ExtractTokens
) -> tuple[RegisterFile, AppliedErasures]:
    """Apply a register file to a database: delete the registered messages, and add the entries to the register.

    Messages that were written after their erasure are kept. Servers may be running. An interrupted call can be
    repeated. `extract_tokens` returns the columns of a message for the lexical index.

    Raises:
        RegisterError: the file is damaged or belongs to another message log; or the log has lost erasures, but has not
            started a new epoch since.
        LogUnusableError, LogVersionError: the database is unavailable or unsuitable.
        OSError: the file cannot be read.
    """
    await upgrade_schema(database)
    async with open_connection(database) as connection:
        key = await read_register_key(connection)
        register = read_register(path, key)
        return register, await _RegisterApplication(connection, key, extract_tokens).run(register.read_erasures())


class _RegisterApplication:
    """Applies the register of erasures with the key `key` to a message log, over one connection."""

    def __init__(self, connection: Connection, key: RegisterKey, extract_tokens: ExtractTokens) -> None:
        self._connection = connection
        self._key = key
        self._extract_tokens = extract_tokens

    async def run(self, erasures: Iterable[ErasureEntry]) -> AppliedErasures:
        async with self._connection.transaction():
            entries = await self._load_entries(erasures)
        await self._connection.execute("ANALYZE affected")
        users, of_users = await self._erase_users()
        return AppliedErasures(entries, users, of_users + await self._delete_messages())

    async def _load_entries(self, erasures: Iterable[ErasureEntry]) -> int:
        """Add erasures to the register, and to the table `affected` with the last sequence number that each affects."""
        await self._connection.execute(_CREATE)
        epochs, latest = await read_epochs(self._connection), await self._connection.fetchval(_LATEST)
        entries, unread = 0, iter(erasures)
        while batch := list(islice(unread, _BATCH)):
            affected = [(erasure.digest, until) for erasure, until in resolve_affected_sequences(batch, epochs, latest)]
            await self._connection.execute(_INSERT, *map(list, zip(*affected, strict=True)))
            await merge_erasures(self._connection, batch)
            entries += len(batch)
        return entries

    async def _erase_users(self) -> tuple[int, int]:
        """Erase the registered users; return the number of users who had messages, and the number of their messages."""
        removed = []
        for user_id, sequence in await self._fetch(_USERS):
            transaction = self._create_transaction()
            await transaction.begin()
            removed.append(await transaction.erase_up_to(user_id, sequence))
            await transaction.commit()
        return sum(map(bool, removed)), sum(removed)

    async def _delete_messages(self) -> int:
        deleted, selected = 0, await self._fetch(_MESSAGES)
        for start in range(0, len(selected), _BATCH):
            batch = selected[start : start + _BATCH]
            transaction = self._create_transaction()
            await transaction.begin()
            deleted += await transaction.delete_up_to({(user, message): sequence for user, message, sequence in batch})
            await transaction.commit()
        return deleted

    def _create_transaction(self) -> PostgresTransaction:
        return PostgresTransaction(self._connection, RetentionPolicy(), self._extract_tokens)

    async def _fetch(self, statement: str) -> list[Any]:
        return await self._connection.fetch(statement, *self._key.hmac_pads, timeout=LONG_TIMEOUT_S)
