"""The file of keys as the command line handles it: what is wrong with it is told in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from nomemory.server.identity.key_file import KeyFile, KeyRecord, locked, read_keys, write_keys


def readable(path: Path) -> list[KeyRecord]:
    """Read the keys, in the order in which they were made; none where there is no file.

    Raises:
        click.ClickException: the file is no file of keys.
    """
    try:
        return list(read_keys(path).keys)
    except ValueError as error:
        raise click.ClickException(f"{path} {error}.") from None


@contextmanager
def changed(path: Path) -> Iterator[list[KeyRecord]]:
    """Return the keys to change; they are written when the context is left without an error.

    Raises:
        click.ClickException: the file is no file of keys.
    """
    with locked(path):
        records = readable(path)
        yield records
        write_keys(path, KeyFile(keys=tuple(records)))
