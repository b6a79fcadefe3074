"""`nomemory cursor-key`: the key that seals cursors and write tokens."""

from __future__ import annotations

from pathlib import Path

import click

from nomemory.server.data_directory import DataDirectory
from nomemory.server.server_key import KeyFileError, retire_key, rotate_key

data_option = click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    envvar="NOMEMORY_DATA",
    show_envvar=True,
    help="Directory of the server's data.",
)


key_file_option = click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="NOMEMORY_KEY_FILE",
    show_envvar=True,
    help="File of the key, if it is not in that directory.",
)


@click.group("cursor-key")
def cursor_key() -> None:
    """Rotate the key that seals cursors and write tokens.

    A running server sees a change at the next call. First `rotate`; when cursors and write tokens from before are of no
    use any more, `retire`.
    """


@cursor_key.command("rotate")
@data_option
@key_file_option
def rotate(*, data: Path, key_file: Path | None) -> None:
    """Make a new key, which seals from now on. What the old one sealed stays good."""
    try:
        rotate_key(DataDirectory(data, key_file).key)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
    click.echo("There is a new key. Take the old one out with: nomemory cursor-key retire", err=True)


@cursor_key.command("retire")
@data_option
@key_file_option
def retire(*, data: Path, key_file: Path | None) -> None:
    """Take the old key out. The cursors and write tokens that it sealed are refused from now on."""
    try:
        retire_key(DataDirectory(data, key_file).key)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
    click.echo("The old key is good for nothing.", err=True)
