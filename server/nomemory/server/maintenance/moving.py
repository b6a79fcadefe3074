"""The two ways to move a log: from a file to PostgreSQL, and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.erasure import follower_name
from nomemory.server.maintenance.catch_up import Pass
from nomemory.server.maintenance.database_ends import open_source, open_target
from nomemory.server.maintenance.file_ends import FileSource, FileTarget
from nomemory.server.maintenance.migration import Migration, Outcome, Source

Tell = Callable[[Pass, int], None]
"""Called after each commit with what a pass has done so far, and how many messages the log has."""


async def move_to_database(directory: DataDirectory, database: Database, *, switches: bool, tell: Tell) -> Outcome:
    """Move the log of a data directory to a database.

    Args:
        directory: the server's.
        database: empty, or with the unfinished copy of this log.
        switches: whether the copy becomes the log; otherwise it is only made like it.
        tell: told of progress.

    Raises:
        MigrationError, DataDirectoryBusyError, LogUnusableError, LogVersionError: it cannot be moved; says why.
        sqlite3.Error, OSError, one of the database's errors: something else stands in the way.
    """
    async with aclosing(FileSource(directory)) as source:
        log = (await source.tables.position()).identity
        async with open_target(database, log, directory, may_begin=not source.was_moved) as target:
            migration = Migration(source, target, await _counted(source, tell))
            return await (migration.switch() if switches else migration.copy())


async def move_to_file(database: Database, directory: DataDirectory, *, switches: bool, tell: Tell) -> Outcome:
    """Move the log of a database to a data directory. The arguments and errors are those of `move_to_database`."""
    async with open_source(database) as source:
        log = (await source.tables.position()).identity
        has_followed = directory.follower.exists() and await source.follows(follower_name(directory.follower))
        may_begin = not source.was_moved
        async with aclosing(FileTarget(directory, log, has_followed=has_followed, may_begin=may_begin)) as target:
            migration = Migration(source, target, await _counted(source, tell))
            return await (migration.switch() if switches else migration.copy())


async def _counted(source: Source, tell: Tell) -> Callable[[Pass], None]:
    messages = (await source.tables.totals()).messages
    return lambda done: tell(done, messages)
