"""What the doctor does to a data directory when it is asked to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import click

from nomemory.cli.doctor.postgres import IN_POSTGRES
from nomemory.cli.doctor.vectors import mend_vectors
from nomemory.server.composition.log_store import log_store
from nomemory.server.data_directory import DataDirectory, DataDirectoryBusyError, DataDirectoryUnusableError
from nomemory.server.log.protocol import LogUnusableError, LogVersionError
from nomemory.server.maintenance.loss import accept_loss as begin_anew
from nomemory.server.maintenance.repair import delete_damaged as delete
from nomemory.server.maintenance.repair import repair as mend
from nomemory.server.settings import Settings

_REFUSALS = (DataDirectoryBusyError, DataDirectoryUnusableError, LogUnusableError, LogVersionError, sqlite3.Error)


def treat(settings: Settings, *, repair: bool, accept_loss: bool, delete_damaged: bool) -> Iterator[str]:
    """Do what is asked for; yield in words what was done.

    Raises:
        click.ClickException: it cannot be done, for instance because a server runs on the directory.
    """
    directory = DataDirectory(settings.server.data)
    if not directory.root.is_dir():
        raise click.ClickException(f"there is no directory {directory.root}")
    if settings.server.log is not None and (repair or delete_damaged):
        raise click.ClickException(IN_POSTGRES.format(what="--repair and --delete-damaged mend a file"))
    try:
        if accept_loss:
            log = begin_anew(directory, log_store(settings, directory).begin_epoch)
            yield f"The loss is accepted: the log goes on after change {log.sequence:,}."
        if delete_damaged:
            yield f"{delete(directory):,} damaged messages are deleted."
        if repair:
            yield from [*mend(directory), *mend_vectors(settings)] or ["There is nothing to repair."]
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
