"""A small file that is read again when it has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from nomemory.server.runtime.structured_logs import get_logger

_Content = TypeVar("_Content")
_Stamp = tuple[int, int, int, int]

_log = get_logger("identity")


class FileUnusableError(Exception):
    """The file cannot be read, or does not say what it should."""


class WatchedFile(Generic[_Content]):
    """What a file says now.

    A file that has become unusable says nothing: what it said before may have been taken back on purpose.

    Args:
        path: the file.
        parse: reads its bytes; raises ValueError where they make no sense, in words that quote nothing of them.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], _Content]) -> None:
        self._path = path
        self._parse = parse
        self._stamp: _Stamp | None = None
        self._outcome: _Content | FileUnusableError = FileUnusableError(f"{path} has not been read")

    def content(self) -> _Content:
        """Return what the file says; looking whether it has changed costs one system call.

        Raises:
            FileUnusableError: it cannot be read or makes no sense.
        """
        stamp = self._look()
        if stamp is None or stamp != self._stamp:
            self._outcome = self._read()
            self._stamp = stamp
        if isinstance(self._outcome, FileUnusableError):
            raise self._outcome
        return self._outcome

    def _look(self) -> _Stamp | None:
        try:
            seen = self._path.stat()
        except OSError:
            return None
        return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino

    def _read(self) -> _Content | FileUnusableError:
        try:
            return self._parse(self._path.read_bytes())
        except OSError as error:
            unusable = FileUnusableError(f"{self._path}: {error.strerror or 'cannot be read'}")
        except ValueError as error:
            unusable = FileUnusableError(f"{self._path}: {error}")
        _log.error("a file of keys or credentials cannot be used", path=str(self._path))
        return unusable
