"""Checks and repairs of the message log and the lexical index in a data directory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import click

from nomemory.cli.output import CheckResult
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.secure_files import find_paths_readable_by_others
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.wiring.log_store import choose_log_store
from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.search.lexical.tantivy.log_comparison import compare_with_log
from nomemory.server.search.lexical.tantivy.schema import read_lexical_checkpoint
from nomemory.server.store.consistency import accept_loss as accept_log_loss
from nomemory.server.store.consistency import describe_current_loss
from nomemory.server.store.protocol import LogMigratedError
from nomemory.server.store.repair import delete_damaged_messages
from nomemory.server.store.repair import repair_log as repair_from_log
from nomemory.server.store.sqlite.inspection import check_counts, inspect_log
from nomemory.server.store.sqlite.schema import SCHEMA_VERSION, open_read_only_log, read_identity, read_log_position

_RESTORE = "Restore a backup: nomemory restore BACKUP --replace."
_REPAIR = "Stop the server and run: nomemory doctor --repair."
_MAX_LISTED = 10
_IN_POSTGRES: Final = (
    "the message log is in PostgreSQL (NOMEMORY_DATABASE_URL); --repair and --delete-damaged require a log in SQLite"
)


def check_data(directory: DataDirectory) -> Iterator[CheckResult]:
    """Check a data directory, which may be in use, without changing it."""
    if not directory.root.is_dir():
        return
    yield _check_privacy(directory.root)
    try:
        yield _check_history(describe_current_loss(directory, partial(read_log_position, directory.log_file)), _RESTORE)
        log = read_log_position(directory.log_file)
    except LogMigratedError as error:
        yield CheckResult("Message log history", "fail", "the message log was migrated", str(error))
        return
    except StartupError as error:
        yield CheckResult("Message log history", "fail", str(error), _RESTORE)
        return
    if log is None:
        return
    with closing(open_read_only_log(directory.log_file)) as connection:
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if schema != SCHEMA_VERSION:
            finding = f"schema {schema} has no checksums; the server upgrades it to schema {SCHEMA_VERSION} at startup"
            yield CheckResult("Checksums", "skip", finding)
            return
        yield _check_messages(directory.log_file)
        try:
            yield _check_counts(connection)
            yield _check_lexical(connection, directory)
        except sqlite3.Error as error:
            yield CheckResult("Counts", "fail", str(error), _RESTORE)


def _check_privacy(root: Path) -> CheckResult:
    exposed = find_paths_readable_by_others(root)
    if root in exposed:
        finding = f"other users can access {len(exposed):,} files and directories"
        return CheckResult(
            "Permissions", "warn", finding, f"The server corrects this at startup, or run: chmod -R go= {root}"
        )
    return CheckResult("Permissions", "ok", "only the owner has access")


def _check_history(lost: str, restore: str) -> CheckResult:
    """Report lost changes, and how to restore them."""
    if lost:
        advice = f"{restore} Or accept the loss: nomemory doctor --accept-loss."
        return CheckResult("Message log history", "fail", f"changes are lost: {lost}", advice)
    return CheckResult("Message log history", "ok", "no lost changes detected")


def _check_messages(log: Path) -> CheckResult:
    damage = inspect_log(log)
    if damage.file:
        return CheckResult("Checksums", "fail", f"the file is damaged: {damage.file}", _RESTORE)
    if damage.messages:
        sequences = ", ".join(str(message.sequence) for message in damage.messages[:_MAX_LISTED])
        finding = f"{len(damage.messages):,} messages are damaged, sequences {sequences}"
        return CheckResult(
            "Checksums", "fail", finding, f"{_RESTORE} Or delete them: nomemory doctor --delete-damaged."
        )
    return CheckResult("Checksums", "ok", "correct for all messages")


def _check_counts(connection: sqlite3.Connection) -> CheckResult:
    counts = check_counts(connection)
    if counts.is_consistent:
        return CheckResult("Counts", "ok", "correct for all users")
    finding = (
        f"{counts.miscounted_users:,} users have wrong counts; {counts.orphaned_entries:,} metadata entries and "
        f"{counts.orphaned_vectors:,} vectors have no message"
    )
    return CheckResult("Counts", "fail", finding, _REPAIR)


def _check_lexical(connection: sqlite3.Connection, directory: DataDirectory) -> CheckResult:
    checkpoint = read_lexical_checkpoint(directory.lexical_index, read_identity(connection))
    log = read_log_position(directory.log_file)  # read last, because a server may be writing
    if log is None or checkpoint is None:
        return CheckResult("Lexical index files", "skip", "no readable index yet")
    if not checkpoint.can_resume(log):
        return CheckResult(
            "Lexical index files",
            "warn",
            "belongs to another message log or epoch; the server rebuilds it at startup",
            _REPAIR,
        )
    try:
        differences = compare_with_log(directory.lexical_index, connection)
    except IndexUnusableError:
        return CheckResult("Lexical index files", "warn", "unreadable; the server rebuilds it at startup", _REPAIR)
    if differences.missing_versions or differences.orphan_versions:
        missing, orphans = len(differences.missing_versions), len(differences.orphan_versions)
        finding = f"{missing:,} messages are missing, {orphans:,} are deleted in the message log"
        return CheckResult(
            "Lexical index files", "fail", f"{finding}, up to change {differences.applied_sequence:,}", _REPAIR
        )
    return CheckResult(
        "Lexical index files", "ok", f"matches the message log up to change {differences.applied_sequence:,}"
    )


def check_postgres(settings: Settings) -> Iterator[CheckResult]:
    """Check that the message log in PostgreSQL is readable, and has all changes that the local indexes have applied."""
    directory = DataDirectory(settings.server.data)
    try:
        store = choose_log_store(settings, directory)
        log, lost = store.read_position(), describe_current_loss(directory, store.read_position)
    except StartupError as error:
        yield CheckResult("Message log", "fail", str(error), "Check the database, or NOMEMORY_DATABASE_URL.")
        return
    sequence = log.sequence if log else 0
    yield CheckResult("Message log", "ok", f"in PostgreSQL, up to change {sequence:,}; PostgreSQL checks its pages")
    yield _check_history(lost, "Restore the database.")


def repair_data(settings: Settings, *, repair: bool, accept_loss: bool, delete_damaged: bool) -> Iterator[str]:
    """Run the requested repairs; yield a description of each result.

    Raises:
        click.ClickException: a repair failed, for example because a server is using the directory.
    """
    directory = DataDirectory(settings.server.data)
    if not directory.root.is_dir():
        raise click.ClickException(f"{directory.root}: no such directory; pass the data directory with --data")
    if settings.server.database_url is not None and (repair or delete_damaged):
        raise click.ClickException(_IN_POSTGRES)
    try:
        if accept_loss:
            log = accept_log_loss(directory, choose_log_store(settings, directory).begin_epoch)
            yield f"Loss accepted: the message log continues after change {log.sequence:,}."
        if delete_damaged:
            yield f"Deleted {delete_damaged_messages(directory):,} damaged messages."
        if repair:
            yield from repair_from_log(directory) or ["There is nothing to repair."]
    except (StartupError, sqlite3.Error) as error:
        raise click.ClickException(str(error)) from None
