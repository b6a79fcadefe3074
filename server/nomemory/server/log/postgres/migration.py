"""Brings a database forward, and refuses one that cannot hold the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nomemory.server.log.move import refusal_of_database
from nomemory.server.log.postgres.connections import ERRORS, LONG_S, Database
from nomemory.server.log.postgres.schema import LOCK, MIGRATIONS, OLDEST_SERVED, SCHEMA_VERSION, VERSIONS_TABLE
from nomemory.server.log.protocol import LogMovedError, LogUnusableError, LogVersionError

if TYPE_CHECKING:
    from nomemory.server.log.postgres.connections import Connection

_OLDEST: Final = 140_000
"""PostgreSQL 14."""

_UNUSABLE: Final = """\
the message log in PostgreSQL (NOMEMORY_LOG) cannot be used: {cause}."""

_IS_BEHIND: Final = "SELECT last_value < (SELECT max(sequence) FROM buckets) FROM log_sequence"

_TOO_OLD: Final = "it is PostgreSQL {version}, and 14 is the oldest that will do"
_ENCODING: Final = "its encoding is {encoding}, and only UTF8 holds every message"
_NOT_DURABLE: Final = "synchronous_commit is off for this role, so that a commit would not be durable"

_LATEST: Final = "SELECT version, oldest_served FROM schema_versions ORDER BY version DESC LIMIT 1"
_NOTE: Final = "INSERT INTO schema_versions (version, oldest_served) VALUES ($1, $2)"


async def bring_forward(database: Database) -> bool:
    """Check the database, and make the schema that this server knows out of whatever is there.

    Return whether what it acknowledges survives a failure of its machine.

    Raises:
        LogUnusableError: it cannot be reached, or cannot hold the log.
        LogVersionError: it has a schema that a later server made.
    """
    try:
        connection = await database.connect()
        try:
            is_safe = await _check(connection)
            await _migrate(connection)
        finally:
            connection.terminate()
    except ERRORS as error:
        raise LogUnusableError(_UNUSABLE.format(cause=error or type(error).__name__)) from error
    return is_safe


async def begin_epoch(database: Database) -> None:
    """Give the log a new epoch, durably: from now on its sequences mean other changes than they did to others.

    Raises:
        LogUnusableError: the database cannot be reached.
    """
    try:
        connection = await database.connect()
        try:
            await connection.execute("UPDATE log_state SET epoch = left(md5(gen_random_uuid()::text), 16)")
        finally:
            connection.terminate()
    except ERRORS as error:
        raise LogUnusableError(_UNUSABLE.format(cause=error or type(error).__name__)) from error


async def _check(connection: Connection) -> bool:
    version, encoding, commit, fsync = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),"
        " current_setting('synchronous_commit'), current_setting('fsync')"
    ) or (0, "", "", "")
    if version < _OLDEST:
        raise LogUnusableError(_UNUSABLE.format(cause=_TOO_OLD.format(version=version // 10_000)))
    if encoding != "UTF8":
        raise LogUnusableError(_UNUSABLE.format(cause=_ENCODING.format(encoding=encoding)))
    if commit == "off":
        raise LogUnusableError(_UNUSABLE.format(cause=_NOT_DURABLE))
    return bool(fsync != "off")


async def _migrate(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(VERSIONS_TABLE)
        latest = await connection.fetchrow(_LATEST)
    version, oldest_served = latest or (0, None)
    if refusal := refusal_of_database(version):
        raise LogMovedError(_UNUSABLE.format(cause=refusal))
    if version > SCHEMA_VERSION < (oldest_served or version):
        raise LogVersionError(f"the log has schema {version}, this server knows {SCHEMA_VERSION}")
    for step in range(version, SCHEMA_VERSION):
        await _step(connection, step + 1)
    await _mend_sequence(connection)


async def _mend_sequence(connection: Connection) -> None:
    """Have numbers go on beyond all that were given out. A copy by logical replication has no state of a sequence."""
    if not await connection.fetchval(_IS_BEHIND):
        return
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM buckets ORDER BY bucket FOR UPDATE")  # nobody draws numbers meanwhile
        await connection.execute(f"SELECT setval('log_sequence', max(sequence)) FROM buckets WHERE ({_IS_BEHIND})")  # noqa: S608 - ours


async def _step(connection: Connection, to: int) -> None:
    """Make one schema of the one before, unless another server has done it meanwhile."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute("SET LOCAL statement_timeout = 0")
        if await connection.fetchval("SELECT 1 FROM schema_versions WHERE version = $1", to):
            return
        await connection.execute(MIGRATIONS[to - 1], timeout=LONG_S)
        await connection.execute(_NOTE, to, OLDEST_SERVED)
