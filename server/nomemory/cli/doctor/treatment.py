"""What the doctor does to a data directory when it is asked to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import click

from nomemory.server.data_directory import DataDirectory, DataDirectoryBusyError, DataDirectoryUnusableError
from nomemory.server.log.protocol import LogUnusableError, LogVersionError
from nomemory.server.maintenance.loss_acceptance import accept_loss as begin_anew
from nomemory.server.maintenance.repair import delete_damaged as delete
from nomemory.server.maintenance.repair import repair as mend

_REFUSALS = (DataDirectoryBusyError, DataDirectoryUnusableError, LogUnusableError, LogVersionError, sqlite3.Error)


def treat(data: Path, *, repair: bool, accept_loss: bool, delete_damaged: bool) -> Iterator[str]:
    """Do what is asked for; yield in words what was done.

    Raises:
        click.ClickException: it cannot be done, for instance because a server runs on the directory.
    """
    directory = DataDirectory(data)
    if not data.is_dir():
        raise click.ClickException(f"there is no directory {data}")
    try:
        if accept_loss:
            log = begin_anew(directory)
            yield f"The loss is accepted: the log goes on after change {log.sequence:,}."
        if delete_damaged:
            yield f"{delete(directory):,} damaged messages are deleted."
        if repair:
            yield from mend(directory) or ["There is nothing to repair."]
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
