"""The files of an embedded shard: one process opens them, those that are damaged are given up, a copy needs room."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nomemory.server.vector.protocol import NoRoomError

_BLOCK: Final = 512
"""The unit in which the system counts what a file takes."""


def create(directory: Path, make: Callable[[Path], None]) -> None:
    """Make an empty shard. It gets its name when it is complete, so that half of one is never opened."""
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    make(unfinished)
    unfinished.rename(directory)


def size_of(directory: Path) -> int:
    """Return the bytes that a shard takes on the disk."""
    files = (Path(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return sum(file.stat().st_blocks * _BLOCK for file in files)


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
    attempts, damaged = _attempts_file(directory), directory.with_name(f"{directory.name}.damaged")
    shutil.rmtree(damaged, ignore_errors=True)  # of one that was given up, and not deleted to the end
    made = _number(attempts)
    if made >= _ATTEMPTS_MAX and _can_be_given_up(directory):
        if directory.exists():
            directory.rename(damaged)
            shutil.rmtree(damaged, ignore_errors=True)
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


def _attempts_file(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.attempts")


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (FileNotFoundError, ValueError):
        return 0


SET_ASIDE_BYTES: Final = 64 << 20
"""What the engine sets aside on the disk for a shard, whatever is in it."""
_VECTOR_BYTES, _PAYLOAD_BYTES = 8, 1024
"""What a number of a vector, and what is kept beside it, take on the disk at most: twice, in the files and the log."""


def bytes_of(points: int, dimension: int) -> int:
    """Return the most bytes that points take on the disk."""
    return points * (dimension * _VECTOR_BYTES + _PAYLOAD_BYTES)


def demand_room(directory: Path, size: int, free_bytes_min: int) -> None:
    """Refuse to write so many bytes beside a directory, if the disk then has less than `free_bytes_min` left.

    Raises:
        NoRoomError: see there.
    """
    free = max(0, shutil.disk_usage(directory.parent).free - free_bytes_min)
    if free < size:
        raise NoRoomError(f"it needs {_mib(size)} MiB on the disk, of which {_mib(free)} are free to be used")


def _mib(size: int) -> int:
    """Round up."""
    return -(-size >> 20)
