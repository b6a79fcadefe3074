"""`nomemory erasures`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nomemory.cli.configuration import load_settings
from nomemory.cli.terminal import pluralize
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.startup_errors import StartupError, require_extra
from nomemory.server.store.erasure_register import AppliedErasures, RegisterError
from nomemory.server.store.register_file import RegisterFile
from nomemory.server.store.sqlite import register_application as sqlite_register

if TYPE_CHECKING:
    from nomemory.server.runtime.settings import Settings
    from nomemory.server.store.postgres.connections import Database

_data_option = click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory."
)


@click.group("erasures")
def erasures() -> None:
    """Export and apply the register of erasures.

    The message log records each deletion of messages and each erasure of a user, without ids and content. A restored
    message log does not contain the erasures after the backup; apply an exported register to it. With
    NOMEMORY_DATABASE_URL, the commands use the message log in PostgreSQL.
    """


@erasures.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_data_option
def export_register(*, file: Path, data: Path | None) -> None:
    """Write the register to a file. The server may be running.

    An existing file is replaced. Keep the file apart from the backups, and export it more often than you back up.
    """
    settings = load_settings(data=data)
    with _explain_errors():
        if settings.server.database_url is None:
            entries = sqlite_register.export_register(DataDirectory(settings.server.data), file)
        else:
            _require_driver()
            entries = asyncio.run(_export_from_postgres(settings, file))
    click.echo(f"{file}: {_format_count(entries)}.")


@erasures.command("apply")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_data_option
def apply_register(*, file: Path, data: Path | None) -> None:
    """Delete the messages that a register lists from a restored message log.

    Messages that were written after their erasure are kept. The server must not be running, except with PostgreSQL. The
    command can be repeated.
    """
    settings = load_settings(data=data)
    with _explain_errors():
        if settings.server.database_url is None:
            register, applied = sqlite_register.apply_register(DataDirectory(settings.server.data), file)
        else:
            _require_driver()
            register, applied = asyncio.run(_apply_to_postgres(settings, file))
    click.echo(f"{file}: {describe_applied_erasures(applied)}")
    click.echo(f"The register was exported at {format_time(register.exported_us)}. Later erasures were not applied.")


def describe_applied_erasures(applied: AppliedErasures) -> str:
    """Return a sentence that describes the effect of a register of erasures."""
    users = f", including all data of {pluralize(applied.users, 'user')}" if applied.users else ""
    return f"{_format_count(applied.entries)}; deleted {pluralize(applied.messages, 'message')}{users}."


def format_time(us: int) -> str:
    """Format a time in microseconds since the epoch, to the second."""
    return f"{datetime.fromtimestamp(us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _format_count(entries: int) -> str:
    return pluralize(entries, "erasure")


async def _export_from_postgres(settings: Settings, file: Path) -> int:
    from nomemory.server.store.postgres.register_application import export_register  # noqa: PLC0415 - its driver is an extra

    return await export_register(_create_database(settings), file)


async def _apply_to_postgres(settings: Settings, file: Path) -> tuple[RegisterFile, AppliedErasures]:
    from nomemory.server.search.lexical.postgres.token_columns import build_token_columns  # noqa: PLC0415 - its driver is an extra
    from nomemory.server.store.postgres.register_application import apply_register  # noqa: PLC0415 - as above

    return await apply_register(_create_database(settings), file, build_token_columns)


def _require_driver() -> None:
    require_extra("postgres", ("asyncpg",), "NOMEMORY_DATABASE_URL with a database")


def _create_database(settings: Settings) -> Database:
    from nomemory.server.store.postgres.connections import Database  # noqa: PLC0415 - its driver is an extra

    url = settings.server.database_url
    return Database(
        url.get_secret_value() if url else "",
        connect_timeout_s=settings.postgres.connect_timeout_s,
        statement_timeout_s=settings.postgres.statement_timeout_s,
    )


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Convert expected errors to `click.ClickException`."""
    try:
        yield
    except (RegisterError, StartupError) as error:
        raise click.ClickException(str(error)) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"cannot open the database file of the message log: {error}") from None
