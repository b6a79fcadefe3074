"""The directory of one server's data: its layout, and the lock that keeps a second server out."""

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
from nomemory.server.runtime.startup_errors import CannotStartError
from nomemory.server.search.lexical.tantivy.schema import DIRECTORY

_PROBE_BYTES = 65_536


class DataDirectoryBusyError(CannotStartError):
    """Another server uses the directory."""


class DataDirectoryUnusableError(CannotStartError):
    """The directory cannot be written, or its disk is full; the text says what to do."""


_NOT_WRITABLE = """\
the data directory {root} cannot be written: {cause}. Make room on its disk, give it to the user that the server runs \
as, or choose another one with --data."""
_FULL = """\
the disk of {root} has {free:,} bytes free, and a server does not start with less than {least:,}: it would fail at the \
next write. Make room, or set NOMEMORY_MIN_FREE_DISK_BYTES."""

_NO_KEY_FILE = """\
NOMEMORY_KEY_FILE names {key_file}, and there is no such file. Put 32 random bytes there, the same for all servers of \
one log, or unset it."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The layout of the directory. The log is the system of record; the indexes can be rebuilt from it.

    `key_file` is where the key is, if it is not in the directory.
    """

    root: Path
    key_file: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> DataDirectory:
        """Return the layout that the settings name.

        Raises:
            DataDirectoryUnusableError: the file of the key, which others share, is not there.
        """
        key_file = settings.server.key_file
        if key_file is not None and not key_file.exists():
            raise DataDirectoryUnusableError(_NO_KEY_FILE.format(key_file=key_file))
        return cls(settings.server.data, key_file)

    @property
    def log(self) -> Path:
        """The message log's file."""
        return self.root / "log.db"

    @property
    def record(self) -> Path:
        """The record of which log this is, and how far it was."""
        return self.root / "log.json"

    @property
    def follower(self) -> Path:
        """The name under which this server follows a log that others may follow, too."""
        return self.root / "follower"

    @property
    def lexical(self) -> Path:
        """The lexical index's directory."""
        return self.root / DIRECTORY

    @property
    def vectors(self) -> Path:
        """The directory of the vector collections and their backlogs."""
        return self.root / "vectors"

    @property
    def model(self) -> Path:
        """The record of the model that searches by meaning are answered with."""
        return self.vectors / "model.json"

    @property
    def key(self) -> Path:
        """The key that seals cursors and write tokens."""
        return self.key_file or self.root / "server.key"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Create the directory if need be, take it until the context is left, and make it private.

        Raises:
            DataDirectoryBusyError: another process has it.
            DataDirectoryUnusableError: it cannot be created or written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            cause = error.strerror or str(error)
            raise DataDirectoryUnusableError(_NOT_WRITABLE.format(root=self.root, cause=cause)) from None
        try:
            self._claim(descriptor)
            make_private(self.root)
            yield
        finally:
            os.close(descriptor)

    def _claim(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirectoryBusyError(f"another server uses {self.root}") from None

    def refuse_full_disk(self, least: int) -> None:
        """Look for free space, in bytes.

        Raises:
            DataDirectoryUnusableError: there is less, or what there is cannot be written to.
        """
        free = shutil.disk_usage(self.root).free
        if free < least:
            raise DataDirectoryUnusableError(_FULL.format(root=self.root, free=free, least=least))
        try:
            with tempfile.TemporaryFile(dir=self.root) as probe:
                probe.write(bytes(_PROBE_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            cause = error.strerror or str(error)
            raise DataDirectoryUnusableError(_NOT_WRITABLE.format(root=self.root, cause=cause)) from None
