"""The directory of an embedded shard.

- The file `edge/current` contains the number of the version in use, such as 2.
- The directory `edge/2/` contains the engine's files.
- The directory `edge/3/` is the target of a compaction in progress.
- The file `edge.lock` is locked by the process that has opened the shard.

The file `current` is replaced atomically. After a crash, either the old or the new files are in use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import Final

_LOCK_WAIT_S: Final = 2.0
"""Time to wait for a process that is shutting down and still holds the lock, in seconds."""
_LOCK_POLL_S: Final = 0.05


class ShardBusyError(Exception):
    """Another process has opened the shard."""


class ShardDirectory:
    """The directory of a shard, which contains numbered versions of the engine's files.

    Args:
        root: the path of the directory `edge`, which need not exist.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._current = root / "current"

    def lock(self) -> None:
        """Lock the shard until this process exits.

        Raises:
            ShardBusyError: another process has opened the shard.
        """
        self._root.parent.mkdir(parents=True, exist_ok=True)
        lock_file = self._root.with_name(f"{self._root.name}.lock")
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ShardBusyError(f"{self._root} is in use by another process: stop that process") from None
                time.sleep(_LOCK_POLL_S)
            else:
                return

    def find_current_version(self) -> Path | None:
        """Return the directory of the files in use; None if no files are in use.

        Raises:
            OSError: the file `current` cannot be read. The engine's files may still be intact.
        """
        try:
            version = self._current.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        directory = self._root / version
        return directory if version.isdecimal() and directory.is_dir() else None

    def create_version_path(self) -> Path:
        """Return the path for a new version, a directory that does not exist yet."""
        self._root.mkdir(mode=0o700, exist_ok=True)
        return self._root / str(max(map(int, (path.name for path in self._list_versions())), default=0) + 1)

    def set_current_version(self, directory: Path) -> None:
        """Make a version the current one, and persist the choice. The caller must have flushed its files."""
        new = self._root / "current.new"
        with new.open("w") as file:
            file.write(directory.name)
            file.flush()
            os.fsync(file.fileno())
        _fsync_directory(self._root)
        new.replace(self._current)
        _fsync_directory(self._root)

    def remove_unused_versions(self) -> None:
        """Delete the files that are not in use."""
        current = self.find_current_version()
        for path in self._list_versions():
            if path != current:
                shutil.rmtree(path, ignore_errors=True)

    def _list_versions(self) -> list[Path]:
        return [path for path in self._root.iterdir() if path.name.isdecimal()] if self._root.is_dir() else []


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
