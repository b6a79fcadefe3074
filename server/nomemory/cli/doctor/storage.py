"""Checks of the data directory and the message log in it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from nomemory.cli.check import Check

LOG_FILE: Final = "log.db"  # not asked of the server's code, which needs packages that may be what is missing
_SPACE_FAIL: Final = 100 * 1024**2
_SPACE_WARN: Final = 1024**3


def check_storage(data: Path) -> Iterator[Check]:
    """Check the directory and its disk; where the server has not run yet, the directory it would be made in."""
    place = _existing(data)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield Check("Data directory", "fail", f"{data} is not writable", "Choose another one with --data.")
        return
    made = "" if place == data else " (will be made by the server)"
    yield Check("Data directory", "ok", f"{data}{made}")
    yield _check_space(place)
    yield _check_wal(place)
    yield _check_log(data / LOG_FILE)


def _existing(path: Path) -> Path:
    return next(candidate for candidate in (path, *path.absolute().parents) if candidate.exists())


def _check_space(place: Path) -> Check:
    free = shutil.disk_usage(place).free
    finding = f"{free / 1024**3:,.1f} GB free"
    if free < _SPACE_FAIL:
        return Check("Disk", "fail", finding, "Make room: a full disk refuses writes.")
    if free < _SPACE_WARN:
        return Check("Disk", "warn", finding, "Make room soon: a full disk refuses writes.")
    return Check("Disk", "ok", finding)


def _check_wal(place: Path) -> Check:
    """Write to a throw-away database on the same file system; network file systems often cannot do this."""
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".doctor-") as folder:
            mode = _write_with_wal(Path(folder) / "wal.db")
    except (sqlite3.Error, OSError) as error:
        return Check("Write-ahead log", "fail", str(error), "Put the data directory on a local disk.")
    if mode != "wal":
        return Check("Write-ahead log", "fail", f"journal mode {mode}", "Put the data directory on a local disk.")
    return Check("Write-ahead log", "ok", "works here")


def _write_with_wal(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        (mode,) = database.execute("PRAGMA journal_mode=WAL").fetchone()
        database.execute("CREATE TABLE written (number)")
        database.commit()
    return str(mode)


def _check_log(path: Path) -> Check:
    if not path.exists():
        return Check("Message log", "skip", "not there yet")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return Check("Message log", "fail", str(error), f"Restore {path} from a backup.")
    if verdict != "ok":
        return Check("Message log", "fail", str(verdict), f"Restore {path} from a backup.")
    size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    return Check("Message log", "ok", f"{size / 1024**2:,.1f} MB, sound")
