"""Operations on files: owner-only permissions, atomic writes, locks and digests."""

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
"""The umask of server processes."""
_DIRECTORY: Final = 0o700
_FILE: Final = 0o600

_log = get_logger("server")


def make_private(root: Path) -> None:
    """Restrict a directory tree to its owner: mode 700 for directories, 600 for files.

    The function skips symbolic links. It logs a warning if the mode of a file cannot be changed, for example because
    another user owns the file.
    """
    failures = sum(not _restrict_to_owner(path) for path in (root, *_list_descendants(root)))
    if failures:
        _log.warning("cannot restrict permissions: other users may read the data", files=failures, data=str(root))


def find_paths_readable_by_others(root: Path) -> list[Path]:
    """Return the paths in a directory tree that other users may read or write."""
    return [
        path
        for path in (root, *_list_descendants(root))
        if _read_permission_bits(path) & UMASK and not path.is_symlink()
    ]


def write_atomically(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Replace a file atomically, so that it has either the old or the new content after a crash.

    The file gets the owner and mode of `like`. If `like` is None, the file gets the current user and mode 600.

    Raises:
        OSError: the file cannot be written, or its directory cannot be flushed to disk.
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
    """Hold an advisory lock on a file until the context exits."""
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compute_file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_path(path: Path) -> None:
    """Flush a file or directory to disk with fsync."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _list_descendants(root: Path) -> list[Path]:
    folders = [(Path(folder), names + files) for folder, names, files in os.walk(root)]
    return [folder / name for folder, names in folders for name in names]


def _restrict_to_owner(path: Path) -> bool:
    if path.is_symlink():
        return True
    mode = _read_permission_bits(path)
    private_mode = _DIRECTORY if stat.S_ISDIR(mode) else _FILE
    if mode & UMASK:
        try:
            path.chmod(private_mode)
        except FileNotFoundError:
            return True
        except PermissionError:
            return False
    return True


def _read_permission_bits(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0
