"""The directory of an embedded shard.

    edge/current    the number of the version in use, here 2
    edge/2/         the engine's files
    edge/3/         a copy without deleted points, while it is being made
    edge.lock       locked by the process that has the files open

`current` is replaced in one step, so a crash leaves either the old files in use or the new ones.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import Final

_LOCK_WAIT_S: Final = 2.0
"""How long to wait for a process that is ending and may still hold the lock."""
_LOCK_POLL_S: Final = 0.05


class ShardBusyError(Exception):
    """Another process has the shard open."""


class ShardDirectory:
    """Tells which files are in use.

    Args:
        root: the directory, `edge` above. It need not exist.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._current = root / "current"

    def lock(self) -> None:
        """Keep other processes from opening the shard, until this process ends.

        Raises:
            ShardBusyError: another process has it open.
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
                    raise ShardBusyError(f"{self._root} is in use by another process") from None
                time.sleep(_LOCK_POLL_S)
            else:
                return

    def current(self) -> Path | None:
        """Return the directory of the files in use; None if there are none.

        Raises:
            OSError: `current` cannot be read now, which says nothing about the files.
        """
        try:
            version = self._current.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        directory = self._root / version
        return directory if version.isdecimal() and directory.is_dir() else None

    def new(self) -> Path:
        """Return a directory that does not exist yet, for files that are not in use yet."""
        self._root.mkdir(mode=0o700, exist_ok=True)
        return self._root / str(max(map(int, (path.name for path in self._versions())), default=0) + 1)

    def switch_to(self, directory: Path) -> None:
        """Use these files from now on, also after a power cut. Their content has been flushed to disk."""
        new = self._root / "current.new"
        with new.open("w") as file:
            file.write(directory.name)
            file.flush()
            os.fsync(file.fileno())
        _sync(self._root)
        new.replace(self._current)
        _sync(self._root)

    def remove_unused(self) -> None:
        """Delete the files that are not in use."""
        current = self.current()
        for path in self._versions():
            if path != current:
                shutil.rmtree(path, ignore_errors=True)

    def _versions(self) -> list[Path]:
        return [path for path in self._root.iterdir() if path.name.isdecimal()] if self._root.is_dir() else []


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
