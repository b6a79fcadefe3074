"""Keeps what a server writes to its owner: directories 700, files 600."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nomemory.server.runtime.structured_logs import get_logger

UMASK: Final = 0o077
"""What a process that serves leaves out of the permissions of files that it makes."""
_DIRECTORY: Final = 0o700
_FILE: Final = 0o600

_log = get_logger("server")


def make_private(root: Path) -> None:
    """Take a directory, and whatever is in it, from everybody but its owner. Links are left alone.

    What belongs to somebody else stays as it is, and is said.
    """
    refused = sum(not _restrict(path) for path in (root, *_below(root)))
    if refused:
        _log.warning("others may read the data: their permissions cannot be changed", files=refused, data=str(root))


def paths_readable_by_others(root: Path) -> list[Path]:
    """Return what in a directory, itself included, others than its owner may read or write."""
    return [path for path in (root, *_below(root)) if _mode(path) & UMASK and not path.is_symlink()]


def write_atomically(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Put a file in its place in one step, so that a crash leaves the whole of it or what was there.

    Args:
        path: where.
        content: what is in it.
        like: whose owner and permissions the file gets; None: only whoever calls can read it.

    Raises:
        OSError: it cannot be written; nothing half-written stays.
    """
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE), "wb") as file:
            file.write(content)
            if like is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
                if (like.st_uid, like.st_gid) != (os.getuid(), os.getgid()):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    fsync_path(path.parent)


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Keep others, who ask for the same, from changing a file meanwhile."""
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_path(path: Path) -> None:
    """Have what was written to a file, or the names in a directory, kept by the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _below(root: Path) -> list[Path]:
    """Return what is there; what goes away meanwhile is not missed."""
    found = [(Path(folder), names + files) for folder, names, files in os.walk(root)]
    return [folder / name for folder, names in found for name in names]


def _restrict(path: Path) -> bool:
    if path.is_symlink():
        return True
    mode = _mode(path)
    wanted = _DIRECTORY if stat.S_ISDIR(mode) else _FILE
    if mode & UMASK:
        try:
            path.chmod(wanted)
        except FileNotFoundError:
            return True
        except PermissionError:
            return False
    return True


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0
