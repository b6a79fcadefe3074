"""`nomemory backup` and `nomemory restore`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from nomemory.cli.configuration import load_settings
from nomemory.cli.erasures import describe_applied_erasures, format_time
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.store import backup as backups
from nomemory.server.store.erasure_register import RegisterError

_REFUSALS = (backups.BackupError, RegisterError, StartupError)
_SECONDS = "%Y%m%dT%H%M%SZ"
_BACKUP_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_DATABASE_URL); back it up with the tools of PostgreSQL: pg_dump or \
continuous archiving. Keep `server.key` of the data directory with it. The indexes are rebuilt from the messages."""
_RESTORE_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_DATABASE_URL); restore it with the tools of PostgreSQL. Then run `nomemory \
doctor --accept-loss` once; it invalidates existing write tokens and cursors. Then apply the register of erasures with \
`nomemory erasures apply FILE`. On the other servers of this message log, delete `log.json` in the data directory \
before you start them."""

_NO_REGISTER: Final = """\
Erasures after the backup ({taken}) are not known, and their data is readable again. If you have a register of \
erasures, run `nomemory erasures apply FILE --data {root}` before you start the server."""
_NOT_IN_REGISTER: Final = """\
Registers do not contain replaced versions of messages: text that was replaced after the backup is readable again."""


@click.command("backup")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Directory to create. Default: a name with the current time."
)
def create_backup(*, data: Path | None, out: Path | None) -> None:
    """Back up the message log and the server key. The server may be running.

    The backup is a consistent snapshot that contains every message acknowledged before the command started. Message
    checksums and database pages are verified. The backup is not encrypted.
    """
    settings = load_settings(data=data)
    if settings.server.database_url is not None:
        raise click.ClickException(_BACKUP_IN_POSTGRES)
    target = out or Path(f"nomemory-{datetime.now(UTC):{_SECONDS}}")
    try:
        manifest = backups.create_backup(DataDirectory(settings.server.data, settings.server.key_file), target)
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{target}: {manifest.messages:,} messages, up to change {manifest.sequence:,}. Verified.")


@click.command("restore")
@click.argument("backup", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory.")
@click.option(
    "--replace", is_flag=True, help="Replace an existing message log. Messages that are not in the backup are lost."
)
@click.option(
    "--erasures",
    "register",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Apply this register of erasures, a file written by `nomemory erasures export`.",
)
@click.option(
    "--ignore-existing-erasures",
    is_flag=True,
    help="Do not apply the erasures of the existing message log, for example because it is damaged.",
)
def restore_backup(
    *, backup: Path, data: Path | None, replace: bool, register: Path | None, ignore_existing_erasures: bool
) -> None:
    """Restore the message log from a backup. The server must not be running.

    The backup is verified first. Existing write tokens and cursors become invalid, and the server rebuilds the indexes
    when it starts.

    A backup that is older than an erasure contains the erased data. The command deletes this data again if the existing
    message log or the file given with --erasures lists the erasure. The command also reports the period that no
    register covers.
    """
    settings = load_settings(data=data)
    if settings.server.database_url is not None:
        raise click.ClickException(_RESTORE_IN_POSTGRES)
    directory = DataDirectory(settings.server.data, settings.server.key_file)
    try:
        restored = backups.restore_backup(
            backup,
            directory,
            replaces=replace,
            register=register,
            ignores_existing_register=ignore_existing_erasures,
        )
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
    sequence = restored.manifest.sequence
    click.echo(f"{directory.root}: restored up to change {sequence:,}. The server rebuilds the indexes when it starts.")
    for line in _describe_erasures(restored, directory.root):
        click.echo(line)


def _describe_erasures(restored: backups.RestoredBackup, root: Path) -> Iterator[str]:
    """Yield the effect of each register of erasures, and the period that no register covers."""
    taken_us = round(restored.manifest.taken * 1_000_000)
    for register in restored.registers:
        name = register.source.file or "the replaced message log"
        yield f"Erasures of {name}: {describe_applied_erasures(register.applied)}"
    sources = [register.source for register in restored.registers]
    if not sources:
        yield _NO_REGISTER.format(taken=format_time(taken_us), root=root)
        return
    since_us = min(source.since_us for source in sources)
    if since_us > taken_us:
        gap = f"between {format_time(taken_us)} and {format_time(since_us)}"
        yield f"Erasures {gap} are not known, because the register begins later."
    if all(source.exported_us is not None for source in sources):
        exported_us = max(source.exported_us or 0 for source in sources)
        yield f"The register was exported at {format_time(exported_us)}. Later erasures were not applied."
    yield _NOT_IN_REGISTER
