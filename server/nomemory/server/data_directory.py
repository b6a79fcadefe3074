"""The directory of one server's data: its layout, and the lock that keeps a second server out."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from nomemory.server.lexical.tantivy_schema import DIRECTORY


class DataDirectoryBusyError(Exception):
    """Another server uses the directory."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The layout of the directory. The log is the system of record; the indexes can be rebuilt from it."""

    root: Path

    @property
    def log(self) -> Path:
        """The message log's file."""
        return self.root / "log.db"

    @property
    def record(self) -> Path:
        """The record of which log this is, and how far it was."""
        return self.root / "log.json"

    @property
    def lexical(self) -> Path:
        """The lexical index's directory."""
        return self.root / DIRECTORY

    @property
    def vectors(self) -> Path:
        """The directory of the vector collections and their backlogs."""
        return self.root / "vectors"

    @property
    def key(self) -> Path:
        """The key that seals cursors and write tokens."""
        return self.root / "server.key"

    def lock(self) -> int:
        """Create the directory if need be and take it; returns the file descriptor that holds the lock.

        Raises:
            DataDirectoryBusyError: another process has it.
            OSError: it cannot be created or written.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DataDirectoryBusyError(f"another server uses {self.root}") from None
        return descriptor
