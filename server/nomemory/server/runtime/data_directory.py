"""The data directory of a server: its layout and its lock file."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nomemory.server.runtime.secure_files import make_private
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.search.lexical.tantivy.schema import DIRECTORY

_PROBE_BYTES = 65_536


class DataDirectoryBusyError(StartupError):
    """Another process holds the lock of the data directory."""


class DataDirectoryUnusableError(StartupError):
    """The data directory is not writable, or its disk is full."""


_NOT_WRITABLE = """\
the data directory {root} cannot be written: {cause}. Free disk space, make the directory writable for the server's \
user, or choose another directory with --data."""
_FULL = """\
the disk of {root} has {free:,} bytes free; the server needs at least {min_free:,} to start. Free disk space, or lower \
NOMEMORY_MIN_FREE_DISK_BYTES."""

_NO_KEY_FILE = """\
NOMEMORY_KEY_FILE: {key_file} does not exist. Create it with 32 random bytes, the same on all servers that share a \
message log, or unset the variable."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The paths of the files in a data directory. The server can rebuild the indexes from the message log.

    Attributes:
        key_file: the configured token key file; None means `server.key` in the directory.
    """

    root: Path
    key_file: Path | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> DataDirectory:
        """Return the data directory that the settings configure.

        Raises:
            DataDirectoryUnusableError: the configured key file does not exist.
        """
        key_file = settings.server.key_file
        if key_file is not None and not key_file.exists():
            raise DataDirectoryUnusableError(_NO_KEY_FILE.format(key_file=key_file))
        return cls(settings.server.data, key_file)

    @property
    def log_file(self) -> Path:
        """The SQLite file of the message log."""
        return self.root / "log.db"

    @property
    def log_position_file(self) -> Path:
        """The file that records the identity and the last known position of the message log."""
        return self.root / "log.json"

    @property
    def follower_file(self) -> Path:
        """The file that contains the name by which this server follows a shared message log."""
        return self.root / "follower"

    @property
    def lexical_index(self) -> Path:
        """The directory of the lexical index."""
        return self.root / DIRECTORY

    @property
    def vector_collections(self) -> Path:
        """The directory of the vector collections and their backlogs."""
        return self.root / "vectors"

    @property
    def model_record(self) -> Path:
        """The file that records the embedding model of the active vector index."""
        return self.vector_collections / "model.json"

    @property
    def token_key(self) -> Path:
        """The file of the key that encrypts cursors and write tokens."""
        return self.key_file or self.root / "server.key"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory until the context exits.

        The directory is created if it is missing, and its permissions are restricted to its owner.

        Raises:
            DataDirectoryBusyError: another process has locked the directory.
            DataDirectoryUnusableError: the directory cannot be created or written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            cause = error.strerror or str(error)
            raise DataDirectoryUnusableError(_NOT_WRITABLE.format(root=self.root, cause=cause)) from None
        try:
            self._lock_file(descriptor)
            make_private(self.root)
            yield
        finally:
            os.close(descriptor)

    def _lock_file(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirectoryBusyError(
                f"the data directory {self.root} is in use by another server: stop that server or use another directory"
            ) from None

    def check_disk_space(self, min_free: int) -> None:
        """Raise an error unless the disk has at least `min_free` bytes free and a test write succeeds.

        Raises:
            DataDirectoryUnusableError: the disk is full, or a test write fails.
        """
        free = shutil.disk_usage(self.root).free
        if free < min_free:
            raise DataDirectoryUnusableError(_FULL.format(root=self.root, free=free, min_free=min_free))
        try:
            with tempfile.TemporaryFile(dir=self.root) as probe:
                probe.write(bytes(_PROBE_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            cause = error.strerror or str(error)
            raise DataDirectoryUnusableError(_NOT_WRITABLE.format(root=self.root, cause=cause)) from None
