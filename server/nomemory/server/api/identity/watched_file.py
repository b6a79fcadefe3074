"""Files that are reloaded when they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from nomemory.server.runtime.structured_logs import get_logger

_Content = TypeVar("_Content")
_FileVersion = tuple[int, int, int, int]

_log = get_logger("identity")


class UnusableFileError(Exception):
    """A watched file cannot be read, or is malformed."""


class WatchedFile(Generic[_Content]):
    """The parsed content of a file, which is reloaded when the file changes.

    If a changed file is unusable, its previous content is discarded, because the change may have revoked credentials.

    Args:
        parse: parses the content; raises ValueError for malformed content, without quoting it.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], _Content]) -> None:
        self._path = path
        self._parse = parse
        self._version: _FileVersion | None = None
        self._loaded: _Content | UnusableFileError = UnusableFileError(f"{path} has not been read")

    def load(self) -> _Content:
        """Return the current content of the file; one system call detects changes.

        Raises:
            UnusableFileError: the file cannot be read or is malformed.
        """
        version = self._read_current_version()
        if version is None or version != self._version:
            self._loaded = self._read_file()
            self._version = version
        if isinstance(self._loaded, UnusableFileError):
            raise self._loaded
        return self._loaded

    def _read_current_version(self) -> _FileVersion | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino

    def _read_file(self) -> _Content | UnusableFileError:
        try:
            return self._parse(self._path.read_bytes())
        except OSError as error:
            unusable = UnusableFileError(f"{self._path}: {error.strerror or 'cannot be read'}")
        except ValueError as error:
            unusable = UnusableFileError(f"{self._path}: {error}")
        _log.error(
            "cannot load a credential file; its credentials are rejected until it is valid", path=str(self._path)
        )
        return unusable
