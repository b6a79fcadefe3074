"""`nomemory migrate`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from nomemory.cli.configuration import load_settings
from nomemory.cli.console import create_stderr_console
from nomemory.cli.terminal import pluralize
from nomemory.importing.progress import show_progress
from nomemory.server.runtime.startup_errors import StartupError, require_extra

if TYPE_CHECKING:
    from nomemory.server.runtime.settings import Settings
    from nomemory.server.store.migration import MigrationOutcome

_SCHEMES: Final = ("postgresql://", "postgres://")
_NO_URL: Final = "The target is the URL of a PostgreSQL database, as an argument or in NOMEMORY_DATABASE_URL."


@click.command("migrate")
@click.argument("data_dir", type=click.Path(path_type=Path))
@click.argument("database_url", required=False)
def migrate_log(*, data_dir: Path, database_url: str | None) -> None:
    """Migrate the message log of a data directory to an empty PostgreSQL database.

    DATABASE_URL is postgresql://…; the default is NOMEMORY_DATABASE_URL. Pass a password in PGPASSWORD or in
    NOMEMORY_DATABASE_URL to keep it out of the process list. Stop the server first.

    All rows are copied in one transaction and verified. If the command is interrupted, run it again. Afterwards no
    server starts on the data directory without NOMEMORY_DATABASE_URL; log.db keeps its messages until you delete it.

    The message log keeps its sequence numbers and ids. With the same server.key, cursors and write tokens stay valid,
    and nothing is embedded again. To return to SQLite, export the messages and import them into a server with a new
    data directory.
    """
    settings = load_settings()
    url = database_url or (settings.server.database_url.get_secret_value() if settings.server.database_url else "")
    if not url.startswith(_SCHEMES):
        raise click.UsageError(_NO_URL)
    with _explain_errors():
        outcome = asyncio.run(_migrate_log(settings, data_dir, url))
    click.echo(_describe_outcome(outcome, data_dir))


async def _migrate_log(settings: Settings, data_dir: Path, url: str) -> MigrationOutcome:
    from nomemory.server.runtime.data_directory import DataDirectory  # noqa: PLC0415 - loads the engines
    from nomemory.server.store.migration import migrate_log  # noqa: PLC0415
    from nomemory.server.store.postgres.connections import LONG_TIMEOUT_S, Database  # noqa: PLC0415 - its driver is an extra

    database = Database(
        url, connect_timeout_s=settings.postgres.connect_timeout_s, statement_timeout_s=LONG_TIMEOUT_S, pool_size=1
    )
    with show_progress(create_stderr_console(), "Copying", "messages") as update:
        return await migrate_log(DataDirectory(data_dir), database, lambda copied, total: update(copied, copied, total))


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Convert expected errors to `click.ClickException`."""
    try:
        require_extra("postgres", ("asyncpg",), "nomemory migrate")
    except StartupError as error:
        raise click.ClickException(str(error)) from None
    from nomemory.server.runtime.data_directory import DataDirectoryBusyError  # noqa: PLC0415 - loads the engines
    from nomemory.server.store.migration import MigrationError  # noqa: PLC0415
    from nomemory.server.store.postgres.connections import ERRORS  # noqa: PLC0415 - its driver is an extra

    try:
        yield
    except DataDirectoryBusyError as error:
        raise click.ClickException(f"{error}. Stop the server and run this command again") from None
    except (MigrationError, StartupError) as error:
        raise click.ClickException(str(error)) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"cannot open the database file of the message log: {error}") from None
    except ERRORS as error:
        if isinstance(error, OSError) and error.filename:
            raise  # the text names the file
        raise click.ClickException(_describe_database_error(error)) from None


def _describe_database_error(error: BaseException) -> str:
    """Describe a database error without its text, which may quote a message."""
    state = getattr(error, "sqlstate", None)
    cause = f"{type(error).__name__} ({state})" if state else str(error) or type(error).__name__
    return f"cannot use the database: {cause}. Fix the problem and run this command again"


def _describe_outcome(outcome: MigrationOutcome, data_dir: Path) -> str:
    migrated = "were already migrated" if outcome.was_complete else "migrated and verified"
    return (
        f"{pluralize(outcome.messages, 'message')} {migrated}, up to change {outcome.position.sequence:,}.\n"
        "Start the server with NOMEMORY_DATABASE_URL and the same data directory."
        f" {data_dir / 'log.db'} still has the messages: delete it when you no longer need it."
    )
