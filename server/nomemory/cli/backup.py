"""`nomemory backup` and `nomemory restore`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from nomemory.cli.configuration import configured
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.startup_errors import CannotStartError
from nomemory.server.store import backup as backups

_REFUSALS = (backups.BackupError, CannotStartError)
_SECONDS = "%Y%m%dT%H%M%SZ"
_BACKUP_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_DATABASE_URL), and its own tools back it up: pg_dump for a copy of one moment, or \
continuous archiving. Keep `server.key` of the data directory with it. The indexes are rebuilt from the messages."""
_RESTORE_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_DATABASE_URL), and its own tools restore it. Before a server starts, run `nomemory \
doctor --accept-loss` once: write tokens and cursors of before are refused from then on. Other servers of the same log \
start again when `log.json` in their data directories is deleted."""


@click.command("backup")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory.")
@click.option("--out", type=click.Path(path_type=Path), help="The directory to make. Default: one named by the time.")
def backup(*, data: Path | None, out: Path | None) -> None:
    """Copy the message log and the server's key, while the server runs or not.

    The copy is of one moment, and is verified: every message's checksum, and the pages of the file. It has every
    message that was acknowledged before the command began. Whoever has it can read the messages.
    """
    settings = configured(data=data)
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
@click.option("--replace", is_flag=True, help="Delete the message log that is there, with whatever only it has.")
def restore(*, backup: Path, data: Path | None, replace: bool) -> None:
    """Put a backup in the place of the message log. The server must not be running.

    The backup is verified first. The log begins a new epoch: write tokens and cursors of before are refused, and the
    indexes are rebuilt when the server starts.
    """
    settings = configured(data=data)
    if settings.server.database_url is not None:
        raise click.ClickException(_RESTORE_IN_POSTGRES)
    directory = DataDirectory(settings.server.data, settings.server.key_file)
    try:
        log = backups.restore(backup, directory, replaces=replace)
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{directory.root}: restored up to change {log.sequence:,}. Its indexes are built when a server starts.")
