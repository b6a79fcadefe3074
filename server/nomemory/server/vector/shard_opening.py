"""What happens before the embedded engine opens its files: they are for one process, and given up if they kill it."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ATTEMPTS_MAX = 3
"""How often files may fail to open, or end the process that opens them, before they are given up."""
_LOCK_WAIT_S, _LOCK_POLL_S = 2.0, 0.05
_ROOM_MIN = 256 << 20
"""Where the disk has less room than this, it is the disk that keeps an engine from opening its files."""


class ShardBusyError(Exception):
    """Another process has the files."""


def condemn(directory: Path) -> None:
    """Have the files given up by the next process that opens them: they are damaged."""
    _attempts_file(directory).write_text(str(_ATTEMPTS_MAX))


def forgive(directory: Path) -> None:
    """Forget attempts that were cut short from outside. What is condemned stays so."""
    attempts = _attempts_file(directory)
    if _number(attempts) < _ATTEMPTS_MAX:
        attempts.unlink(missing_ok=True)


@contextmanager
def opening(directory: Path) -> Iterator[None]:
    """Hold the right to open a shard's files until this process ends; within the context they are to be opened.

    An attempt counts until the context is left without an error. Files of too many attempts are removed first: the
    engine then begins with none, and everything is built anew from the log.

    Raises:
        ShardBusyError: another process has them, and keeps them.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    _lock(directory.with_name(f"{directory.name}.lock"))
    _clear(directory)
    attempts = _attempts_file(directory)
    made = _number(attempts)
    if made >= _ATTEMPTS_MAX and _can_be_given_up(directory):
        _give_up(directory)
        made = 0
    attempts.write_text(str(made + 1))
    yield
    attempts.unlink(missing_ok=True)


def _lock(path: Path) -> None:
    """Take a lock that ends with the process. One that is ending may still have it for a while."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_up = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise ShardBusyError(f"{path.parent} is in use by another process") from None
            time.sleep(_LOCK_POLL_S)
        else:
            return


def _can_be_given_up(directory: Path) -> bool:
    """Return whether the disk is not what fails."""
    return os.access(directory.parent, os.W_OK | os.X_OK) and shutil.disk_usage(directory.parent).free >= _ROOM_MIN


def _give_up(directory: Path) -> None:
    if directory.exists():
        directory.rename(_damaged(directory))
    _clear(directory)


def _clear(directory: Path) -> None:
    shutil.rmtree(_damaged(directory), ignore_errors=True)


def _damaged(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.damaged")


def _attempts_file(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.attempts")


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (FileNotFoundError, ValueError):
        return 0
