"""Back up and restore the message log and the token key of a data directory.

A backup is a directory with `log.db`, `server.key` and the manifest `backup.json`. A backup does not contain the
indexes. Backups are verified when they are created and before they are restored.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.secure_files import compute_file_digest, fsync_path
from nomemory.server.runtime.token_keys import KeyFileError, read_key
from nomemory.server.store.log_position_file import write_position_file
from nomemory.server.store.sqlite.inspection import inspect_log
from nomemory.server.store.sqlite.restored_erasures import (
    AppliedRegister,
    RegisterSource,
    apply_registers,
    load_registers,
)
from nomemory.server.store.sqlite.schema import (
    SCHEMA_VERSION,
    open_writable_log,
    read_log_position,
    read_position,
    remove_log,
)

_LOG, _KEY, _MANIFEST = "log.db", "server.key", "backup.json"
_FORMAT: Final = 1
_SIDE_FILES: Final = ("-wal", "-shm")


class BackupError(Exception):
    """A backup cannot be created, verified or restored. The error message states the reason."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The manifest of a backup.

    Attributes:
        format: the version of the backup format.
        log: the name of the message log (`LogIdentity.name`).
        sha256: the SHA-256 of `log.db` in hexadecimal.
        taken: the Unix time of the backup in seconds.
    """

    format: int
    schema: int
    log: str
    sequence: int
    messages: int
    sha256: str
    taken: float


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """A restored backup, and the registers of erasures that were applied to it."""

    manifest: BackupManifest
    registers: list[AppliedRegister]


def create_backup(directory: DataDirectory, target: Path) -> BackupManifest:
    """Copy the token key and a consistent snapshot of the message log to a new backup directory, atomically.

    A server may be running.

    Raises:
        BackupError: there is no message log, the target exists, or the log is damaged.
        LogUnusableError, LogVersionError: the message log cannot be read.
        OSError: the target cannot be written.
    """
    if target.exists():
        raise BackupError(f"{target} already exists; choose another directory")
    if read_log_position(directory.log_file) is None:
        raise BackupError(f"there is no message log in {directory.root}: pass the data directory with --data")
    part = target.with_name(f"{target.name}.part")
    if part.exists():
        raise BackupError(f"{part} is left over from an interrupted backup: delete it, or choose another directory")
    with ExitStack() as rollback:
        part.mkdir(mode=0o700, parents=True)
        rollback.callback(shutil.rmtree, part)
        manifest = _write_backup(directory, part)
        part.rename(target)
        rollback.pop_all()
    fsync_path(target.parent)
    return manifest


def verify_backup(backup: Path) -> BackupManifest:
    """Verify the manifest, the checksum of the message log and the token key of a backup.

    Raises:
        BackupError: a file is missing or damaged.
    """
    manifest = _read_manifest(backup)
    log = backup / _LOG
    if not log.exists():
        raise BackupError(f"{log} is missing from the backup: use another backup")
    if compute_file_digest(log) != manifest.sha256:
        raise BackupError(
            f"{log} is damaged or was replaced: its SHA-256 does not match {_MANIFEST}; use another backup"
        )
    _check_key(backup / _KEY)
    return manifest


def restore_backup(
    backup: Path,
    directory: DataDirectory,
    *,
    replaces: bool,
    register: Path | None = None,
    ignores_existing_register: bool = False,
) -> RestoredBackup:
    """Verify a backup, and restore its message log as a new epoch.

    The erasures of an existing message log and of a register file are applied to the restored message log. The server
    rebuilds the indexes at its next start.

    Args:
        backup: a directory that `create_backup` created.
        directory: the data directory to install the message log in.
        replaces: whether to replace an existing message log.
        register: a register file to apply; None if there is none.
        ignores_existing_register: whether to replace an existing message log whose register cannot be read.

    Raises:
        BackupError: the backup is damaged, a message log exists and `replaces` is false, or SQLite cannot write the
            message log.
        RegisterError: the register file is damaged or belongs to another message log, or the register of the existing
            log cannot be read.
        DataDirectoryBusyError: a server uses the directory.
        DataDirectoryUnusableError, LogUnusableError, LogVersionError, OSError: the directory cannot be written.
    """
    manifest = verify_backup(backup)
    with directory.lock():
        if directory.log_file.exists() and not replaces:
            raise BackupError(f"{directory.log_file} already exists; use --replace to overwrite it")
        try:
            registers = _install_log(
                backup,
                directory,
                lambda log: load_registers(
                    log, directory.log_file, register, ignores_existing=ignores_existing_register
                ),
            )
        except sqlite3.Error as error:
            raise BackupError(f"{directory.log_file} cannot be written: {error}") from None
    return RestoredBackup(manifest, registers)


def _install_log(
    backup: Path, directory: DataDirectory, registers: Callable[[sqlite3.Connection], Iterable[RegisterSource]]
) -> list[AppliedRegister]:
    new = directory.log_file.with_name(f"{_LOG}.new")
    remove_log(new)
    with ExitStack() as rollback:
        rollback.callback(remove_log, new)
        _copy_file(backup / _LOG, new)
        with closing(open_writable_log(new)) as connection:
            applied = apply_registers(connection, registers(connection))
            log = read_position(connection)
        _checkpoint_log(directory.log_file)
        for suffix in _SIDE_FILES:  # the write-ahead log of the replaced file would corrupt the restored one
            directory.log_file.with_name(directory.log_file.name + suffix).unlink(missing_ok=True)
        new.rename(directory.log_file)
        rollback.pop_all()
    if not directory.token_key.exists() and (backup / _KEY).exists():
        _copy_file(backup / _KEY, directory.token_key)
    write_position_file(directory.log_position_file, log)
    fsync_path(directory.root)
    return applied


def _checkpoint_log(log: Path) -> None:
    """Move the write-ahead log of the replaced message log to its file.

    If the restore is interrupted, the register of erasures is then read completely when the restore is repeated.
    """
    if log.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(log)) as connection:  # a damaged log keeps its files
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _write_backup(directory: DataDirectory, part: Path) -> BackupManifest:
    with suppress(FileNotFoundError):
        _copy_file(directory.token_key, part / _KEY)
    messages = _copy_log(directory.log_file, part / _LOG)
    log = read_log_position(part / _LOG)
    if log is None:
        raise BackupError(f"{directory.log_file} is not a message log (schema version 0); check the data directory")
    _check_copy(directory.log_file, part / _LOG)
    manifest = BackupManifest(
        _FORMAT,
        SCHEMA_VERSION,
        log.identity.name,
        log.sequence,
        messages,
        compute_file_digest(part / _LOG),
        time.time(),
    )
    (part / _MANIFEST).write_bytes(orjson.dumps(asdict(manifest)))
    for path in part.iterdir():
        path.chmod(0o600)
        fsync_path(path)
    fsync_path(part)
    return manifest


def _copy_log(source: Path, target: Path) -> int:
    """Copy a consistent snapshot of a message log, and return the number of messages in the snapshot."""
    uri = f"{source.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as log, closing(sqlite3.connect(target)) as copy:
            log.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # a single file
            (version,) = copy.execute("PRAGMA user_version").fetchone()
            (messages,) = copy.execute("SELECT count(*) FROM messages").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"the message log {source} cannot be copied: {error}") from error
    if version != SCHEMA_VERSION:
        raise BackupError(
            f"{source} has schema {version}, but schema {SCHEMA_VERSION} is required: "
            "start a server of this version on it first"
        )
    return int(messages)


def _check_copy(source: Path, copy: Path) -> None:
    inspection = inspect_log(copy)
    if inspection.messages or inspection.file:
        damage = inspection.file or f"{len(inspection.messages):,} messages have wrong checksums"
        raise BackupError(f"{source} is damaged: {damage}. Run `nomemory doctor` for details.")


def _read_manifest(backup: Path) -> BackupManifest:
    try:
        manifest = BackupManifest(**orjson.loads((backup / _MANIFEST).read_bytes()))
    except (OSError, ValueError, TypeError):
        raise BackupError(f"{backup} is not a backup: {_MANIFEST} is missing or malformed") from None
    if manifest.format != _FORMAT or manifest.schema > SCHEMA_VERSION:
        raise BackupError(f"{backup} was made by a newer version of NoMemory: restore it with that version")
    return manifest


def _check_key(key: Path) -> None:
    if key.is_symlink():
        raise BackupError(f"{key} is a symbolic link; expected a regular file")
    try:
        read_key(key)
    except FileNotFoundError:
        return
    except (KeyFileError, OSError) as error:
        raise BackupError(f"the key file {key} is invalid: {error}") from None


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o600)
    fsync_path(target)
