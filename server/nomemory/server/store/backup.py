"""Backups of a data directory: the log and the key, verified when they are made and before they are put back.

A backup is a directory with `log.db`, `server.key` and `backup.json`, its manifest. Indexes are not in it.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.secure_files import digest_of, fsync_path
from nomemory.server.runtime.token_keys import KeyFileError, read_key
from nomemory.server.store.log_record import write_record
from nomemory.server.store.position import LogPosition
from nomemory.server.store.sqlite.inspection import inspect
from nomemory.server.store.sqlite.schema import SCHEMA_VERSION, begin_epoch, open_for_writing, position_at, remove_log

_LOG, _KEY, _MANIFEST = "log.db", "server.key", "backup.json"
_FORMAT: Final = 1
_SIDE_FILES: Final = ("-wal", "-shm")


class BackupError(Exception):
    """A backup cannot be made or put back; the text says why."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup has: of which log, up to which change, and the SHA-256 of its file. `taken` is a Unix time."""

    format: int
    schema: int
    log: str
    sequence: int
    messages: int
    sha256: str
    taken: float


def back_up(directory: DataDirectory, target: Path) -> Manifest:
    """Copy the log as of one moment, with its key; a server may be running on it. The copy is verified.

    Args:
        directory: what to copy.
        target: a directory, which is made; it appears when all is in it.

    Raises:
        BackupError: there is nothing to copy, the target exists, or the log is damaged.
        LogUnusableError, LogVersionError: the log cannot be read.
        OSError: the target cannot be written.
    """
    if target.exists():
        raise BackupError(f"{target} exists already")
    if position_at(directory.log) is None:
        raise BackupError(f"there is no message log in {directory.root}")
    part = target.with_name(f"{target.name}.part")
    with ExitStack() as unless_it_works:
        part.mkdir(mode=0o700, parents=True)
        unless_it_works.callback(shutil.rmtree, part)
        manifest = _filled(directory, part)
        part.rename(target)
        unless_it_works.pop_all()
    fsync_path(target.parent)
    return manifest


def verify(backup: Path) -> Manifest:
    """Check a backup: its manifest, the sum of its file, its key.

    Raises:
        BackupError: something of it is missing or damaged.
    """
    manifest = _manifest(backup)
    if not (backup / _LOG).exists() or digest_of(backup / _LOG) != manifest.sha256:
        raise BackupError(f"{backup / _LOG} is not what was backed up: it is damaged, or another file")
    _refuse_key(backup / _KEY)
    return manifest


def restore(backup: Path, directory: DataDirectory, *, replaces: bool) -> LogPosition:
    """Put a verified backup in the place of a directory's log, as a new epoch. The indexes follow at the next start.

    Args:
        backup: what `back_up` made.
        directory: where to.
        replaces: whether a log that is there may be deleted.

    Raises:
        BackupError: the backup is damaged, or there is a log already.
        DataDirectoryBusyError: a server uses the directory.
        DataDirectoryUnusableError, LogUnusableError, LogVersionError, OSError: it cannot be written.
    """
    verify(backup)
    with directory.lock():
        if directory.log.exists() and not replaces:
            raise BackupError(f"{directory.log} is there already, and would be lost. --replace deletes it.")
        return _put_back(backup, directory)


def _put_back(backup: Path, directory: DataDirectory) -> LogPosition:
    new = directory.log.with_name(f"{_LOG}.new")
    remove_log(new)
    with ExitStack() as unless_it_works:
        unless_it_works.callback(remove_log, new)
        _copy(backup / _LOG, new)
        with closing(open_for_writing(new)) as connection:
            log = begin_epoch(connection)
        for suffix in _SIDE_FILES:  # of the log that goes: with them beside it, the new one would be damaged
            directory.log.with_name(directory.log.name + suffix).unlink(missing_ok=True)
        new.rename(directory.log)
        unless_it_works.pop_all()
    if not directory.key.exists() and (backup / _KEY).exists():
        _copy(backup / _KEY, directory.key)
    write_record(directory.record, log)
    fsync_path(directory.root)
    return log


def _filled(directory: DataDirectory, part: Path) -> Manifest:
    with suppress(FileNotFoundError):
        _copy(directory.key, part / _KEY)
    messages = _copy_log(directory.log, part / _LOG)
    log = position_at(part / _LOG)
    if log is None:
        raise BackupError(f"{directory.log} could not be copied")
    _refuse_damage(directory.log, part / _LOG)
    manifest = Manifest(
        _FORMAT, SCHEMA_VERSION, log.identity.name, log.sequence, messages, digest_of(part / _LOG), time.time()
    )
    (part / _MANIFEST).write_bytes(orjson.dumps(asdict(manifest)))
    for path in part.iterdir():
        path.chmod(0o600)
        fsync_path(path)
    fsync_path(part)
    return manifest


def _copy_log(source: Path, target: Path) -> int:
    """Copy a database as of one moment; return how many messages it has."""
    reading = f"{source.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(reading, uri=True)) as log, closing(sqlite3.connect(target)) as copy:
            log.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # so that the copy is one file
            (version,) = copy.execute("PRAGMA user_version").fetchone()
            (messages,) = copy.execute("SELECT count(*) FROM messages").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"{source} cannot be copied: {error}") from error
    if version != SCHEMA_VERSION:
        raise BackupError(f"{source} has schema {version}: start a server of this version on it first")
    return int(messages)


def _refuse_damage(source: Path, copy: Path) -> None:
    found = inspect(copy)
    if found.messages or found.file:
        damage = found.file or f"the checksums of {len(found.messages):,} messages do not hold"
        raise BackupError(f"{source} is damaged: {damage}. `nomemory doctor` tells more.")


def _manifest(backup: Path) -> Manifest:
    try:
        manifest = Manifest(**orjson.loads((backup / _MANIFEST).read_bytes()))
    except (OSError, ValueError, TypeError):
        raise BackupError(f"{backup} is no backup: it has no {_MANIFEST} that can be read") from None
    if manifest.format != _FORMAT or manifest.schema > SCHEMA_VERSION:
        raise BackupError(f"{backup} was made by a newer version of NoMemory")
    return manifest


def _refuse_key(key: Path) -> None:
    if key.is_symlink():
        raise BackupError(f"{key} is a link, not the key that was backed up")
    try:
        read_key(key)
    except FileNotFoundError:
        return
    except (KeyFileError, OSError) as error:
        raise BackupError(f"{key} is not the key that was backed up: {error}") from None


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o600)
    fsync_path(target)
