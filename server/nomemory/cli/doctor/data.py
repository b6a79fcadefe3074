"""Check what a server keeps: the message log by itself, and the lexical index against it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import click

from nomemory.cli.output import Check
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.secure_files import readable_by_others
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import CannotStartError
from nomemory.server.runtime.wiring.log_store import log_store
from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.search.lexical.tantivy.log_comparison import compare_with_log
from nomemory.server.search.lexical.tantivy.schema import lexical_checkpoint
from nomemory.server.store.consistency import accept_loss as begin_anew
from nomemory.server.store.consistency import known_loss
from nomemory.server.store.protocol import LogMigratedError
from nomemory.server.store.repair import delete_damaged as delete
from nomemory.server.store.repair import repair as mend
from nomemory.server.store.sqlite.inspection import check_counts, inspect
from nomemory.server.store.sqlite.schema import SCHEMA_VERSION, identity, open_for_reading, position_at

_RESTORE = "Restore a backup: nomemory restore BACKUP --replace."
_REPAIR = "Stop the server and run: nomemory doctor --repair."
_NAMED_MAX = 10
_IN_POSTGRES: Final = "the message log is in PostgreSQL (NOMEMORY_DATABASE_URL), and --repair and --delete-damaged mend a file"


def check_data(directory: DataDirectory) -> Iterator[Check]:
    """Check a directory that may be in use. Nothing is changed."""
    if not directory.root.is_dir():
        return
    yield _check_privacy(directory.root)
    try:
        yield _history(known_loss(directory, partial(position_at, directory.log)), _RESTORE)
        log = position_at(directory.log)
    except LogMigratedError as error:
        yield Check("Message log's history", "fail", "no server serves it", str(error))
        return
    except CannotStartError as error:
        yield Check("Message log's history", "fail", str(error), _RESTORE)
        return
    if log is None:
        return
    with closing(open_for_reading(directory.log)) as connection:
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if schema != SCHEMA_VERSION:
            finding = f"of schema {schema}, which has none: the server brings it to schema {SCHEMA_VERSION}"
            yield Check("Checksums", "skip", finding)
            return
        yield _check_messages(directory.log)
        try:
            yield _check_counts(connection)
            yield _check_words(connection, directory)
        except sqlite3.Error as error:
            yield Check("Counts", "fail", str(error), _RESTORE)


def _check_privacy(root: Path) -> Check:
    open_to_others = readable_by_others(root)
    if root in open_to_others:
        finding = f"others can reach {len(open_to_others):,} files and directories of it"
        return Check("Permissions", "warn", finding, f"The server sees to it when it starts, or: chmod -R go= {root}")
    return Check("Permissions", "ok", "its owner's alone")


def _history(lost: str, restore: str) -> Check:
    """Tell what is known to be lost, and how to get it back."""
    if lost:
        advice = f"{restore} Or accept the loss: nomemory doctor --accept-loss."
        return Check("Message log's history", "fail", f"it has lost changes: {lost}", advice)
    return Check("Message log's history", "ok", "nothing is known to be lost")


def _check_messages(log: Path) -> Check:
    found = inspect(log)
    if found.file:
        return Check("Checksums", "fail", f"the file is damaged: {found.file}", _RESTORE)
    if found.messages:
        sequences = ", ".join(str(message.sequence) for message in found.messages[:_NAMED_MAX])
        finding = f"{len(found.messages):,} messages are damaged, sequences {sequences}"
        return Check("Checksums", "fail", finding, f"{_RESTORE} Or delete them: nomemory doctor --delete-damaged.")
    return Check("Checksums", "ok", "those of all messages hold")


def _check_counts(connection: sqlite3.Connection) -> Check:
    counts = check_counts(connection)
    if counts.agree:
        return Check("Counts", "ok", "agree with the messages, of every user")
    finding = (
        f"{counts.miscounted_users:,} users have wrong counts; {counts.ownerless_entries:,} entries of metadata and "
        f"{counts.ownerless_vectors:,} vectors are of messages that are gone"
    )
    return Check("Counts", "fail", finding, _REPAIR)


def _check_words(connection: sqlite3.Connection, directory: DataDirectory) -> Check:
    known = lexical_checkpoint(directory.lexical, identity(connection))
    log = position_at(directory.log)  # read last: a server may be writing
    if log is None or known is None:
        return Check("Words on disk", "skip", "no index yet that can be read")
    if not known.can_go_on(log):
        return Check("Words on disk", "warn", "of another log or epoch: the server rebuilds it when it starts", _REPAIR)
    try:
        found = compare_with_log(directory.lexical, connection)
    except IndexUnusableError:
        return Check("Words on disk", "warn", "cannot be read: the server rebuilds them", _REPAIR)
    if found.missing or found.orphans:
        finding = f"{len(found.missing):,} messages are missing, {len(found.orphans):,} are there that are gone"
        return Check("Words on disk", "fail", f"{finding}, up to change {found.applied:,}", _REPAIR)
    return Check("Words on disk", "ok", f"agree with the log up to change {found.applied:,}")


def check_postgres(settings: Settings) -> Iterator[Check]:
    """Check that the log can be read, and that it has all that this server's indexes have seen."""
    directory = DataDirectory(settings.server.data)
    try:
        store = log_store(settings, directory)
        log, lost = store.position(), known_loss(directory, store.position)
    except CannotStartError as error:
        yield Check("Message log", "fail", str(error), "Check the database, or NOMEMORY_DATABASE_URL.")
        return
    sequence = log.sequence if log else 0
    yield Check("Message log", "ok", f"in PostgreSQL, up to change {sequence:,}; its pages are the database's to check")
    yield _history(lost, "Restore the database.")


def treat(settings: Settings, *, repair: bool, accept_loss: bool, delete_damaged: bool) -> Iterator[str]:
    """Do what is asked for; yield in words what was done.

    Raises:
        click.ClickException: it cannot be done, for instance because a server runs on the directory.
    """
    directory = DataDirectory(settings.server.data)
    if not directory.root.is_dir():
        raise click.ClickException(f"there is no directory {directory.root}")
    if settings.server.database_url is not None and (repair or delete_damaged):
        raise click.ClickException(_IN_POSTGRES)
    try:
        if accept_loss:
            log = begin_anew(directory, log_store(settings, directory).begin_epoch)
            yield f"The loss is accepted: the log goes on after change {log.sequence:,}."
        if delete_damaged:
            yield f"{delete(directory):,} damaged messages are deleted."
        if repair:
            yield from mend(directory) or ["There is nothing to repair."]
    except (CannotStartError, sqlite3.Error) as error:
        raise click.ClickException(str(error)) from None
