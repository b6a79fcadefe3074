"""`nomemory restore`."""

from __future__ import annotations

from pathlib import Path

import click

from nomemory.cli.configuration import configured

_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_LOG), and its own tools restore it. Before a server starts, run `nomemory \
doctor --accept-loss` once: write tokens and cursors of before are refused from then on. Other servers of the same log \
start again when `log.json` in their data directories is deleted."""


@click.command("restore")
@click.argument("backup", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory.")
@click.option("--replace", is_flag=True, help="Delete the message log that is there, with whatever only it has.")
def restore(*, backup: Path, data: Path | None, replace: bool) -> None:
    """Put a backup in the place of the message log. The server must not be running.

    The backup is verified first. The log begins a new epoch: write tokens and cursors of before are refused, and the
    indexes are built anew when the server starts.
    """
    from nomemory.server.data_directory import DataDirectory  # noqa: PLC0415
    from nomemory.server.data_directory import DataDirectoryBusyError as Busy  # noqa: PLC0415
    from nomemory.server.data_directory import DataDirectoryUnusableError as Unusable  # noqa: PLC0415
    from nomemory.server.log.protocol import LogUnusableError, LogVersionError  # noqa: PLC0415
    from nomemory.server.maintenance import backup as backups  # noqa: PLC0415 - loads the engines

    settings = configured(data=data)
    if settings.server.log is not None:
        raise click.ClickException(_IN_POSTGRES)
    directory = DataDirectory(settings.server.data, settings.server.key_file)
    try:
        log = backups.restore(backup, directory, replaces=replace)
    except (backups.BackupError, Busy, Unusable, LogUnusableError, LogVersionError) as error:
        hint = " --replace deletes it." if directory.log.exists() and not replace else ""
        raise click.ClickException(f"{error}.{hint}" if hint else str(error)) from None
    click.echo(f"{directory.root}: restored up to change {log.sequence:,}. Its indexes are built when a server starts.")
