"""`nomemory backup` and `nomemory restore`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from nomemory.cli.configuration import load_settings
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.store import backup as backups

_REFUSALS = (backups.BackupError, StartupError)
_SECONDS = "%Y%m%dT%H%M%SZ"
_BACKUP_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_DATABASE_URL); back it up with the tools of PostgreSQL: pg_dump or \
continuous archiving. Keep `server.key` of the data directory with it. The indexes are rebuilt from the messages."""
_RESTORE_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_DATABASE_URL); restore it with the tools of PostgreSQL. Then run `nomemory \
doctor --accept-loss` once: write tokens and cursors of before are refused from then on. Other servers of the same log \
start again when `log.json` in their data directories is deleted."""


@click.command("backup")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Directory to create. Default: a name with the current time."
)
def backup(*, data: Path | None, out: Path | None) -> None:
    """Back up the message log and the server key. The server may be running.

    The backup is a consistent snapshot that contains every message acknowledged before the command started. Message
    checksums and database pages are verified. The backup is not encrypted.
    """
    settings = load_settings(data=data)
    if settings.server.database_url is not None:
        raise click.ClickException(_BACKUP_IN_POSTGRES)
    target = out or Path(f"nomemory-{datetime.now(UTC):{_SECONDS}}")
    try:
        manifest = backups.back_up(DataDirectory(settings.server.data, settings.server.key_file), target)
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{target}: {manifest.messages:,} messages, up to change {manifest.sequence:,}. Verified.")


@click.command("restore")
@click.argument("backup", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory.")
@click.option(
    "--replace", is_flag=True, help="Replace an existing message log. Messages that are not in the backup are lost."
)
def restore(*, backup: Path, data: Path | None, replace: bool) -> None:
    """Restore the message log from a backup. The server must not be running.

    The backup is verified first. Existing write tokens and cursors become invalid, and the server rebuilds the indexes
    when it starts.
    """
    settings = load_settings(data=data)
    if settings.server.database_url is not None:
        raise click.ClickException(_RESTORE_IN_POSTGRES)
    directory = DataDirectory(settings.server.data, settings.server.key_file)
    try:
        log = backups.restore(backup, directory, replaces=replace)
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
    click.echo(
        f"{directory.root}: restored up to change {log.sequence:,}. The server rebuilds the indexes when it starts."
    )
