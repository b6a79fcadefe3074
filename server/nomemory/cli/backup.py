"""`nomemory backup`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from nomemory.cli.configuration import configured

_SECONDS = "%Y%m%dT%H%M%SZ"
_IN_POSTGRES = """\
the message log is in PostgreSQL (NOMEMORY_LOG), and its own tools back it up: pg_dump for a copy of one moment, or \
continuous archiving. Keep `server.key` of the data directory with it. The indexes are built anew from the messages."""


@click.command("backup")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The server's data directory.")
@click.option("--out", type=click.Path(path_type=Path), help="The directory to make. Default: one named by the time.")
def backup(*, data: Path | None, out: Path | None) -> None:
    """Copy the message log and the server's key, while the server runs or not.

    The copy is of one moment, and is verified: every message's checksum, and the pages of the file. It has every
    message that was acknowledged before the command began. Whoever has it can read the messages.
    """
    from nomemory.server.data_directory import DataDirectory  # noqa: PLC0415
    from nomemory.server.log.protocol import LogUnusableError, LogVersionError  # noqa: PLC0415
    from nomemory.server.maintenance.backup import BackupError, back_up  # noqa: PLC0415 - loads the engines

    settings = configured(data=data)
    if settings.server.log is not None:
        raise click.ClickException(_IN_POSTGRES)
    target = out or Path(f"nomemory-{datetime.now(UTC):{_SECONDS}}")
    try:
        manifest = back_up(DataDirectory(settings.server.data, settings.server.key_file), target)
    except (BackupError, LogUnusableError, LogVersionError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{target}: {manifest.messages:,} messages, up to change {manifest.sequence:,}. Verified.")
