"""A disk without room, without privileges.

Two ways. A limit on the size of files (`RLIMIT_FSIZE`), which on Linux can be set for a process that runs already:
every write beyond it fails, as on a full disk, with EFBIG in place of ENOSPC. And, where the run is given a directory
on a small file system of its own (a tmpfs, an image), a file of ballast that takes all the room there is: ENOSPC.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CAN_LIMIT = sys.platform == "linux"
_CHUNK = 1 << 20
_LARGEST = 4 << 30
"""A directory with more room than this is no small disk."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A directory on a file system that may be filled."""

    path: Path

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leave no room until the context is left.

        Raises:
            ValueError: there is more room than a small disk has.
        """
        status = os.statvfs(self.path)
        if status.f_bavail * status.f_frsize > _LARGEST:
            raise ValueError(f"{self.path} has too much room: give a small file system of its own")
        ballast = self.path / "ballast"
        try:
            _fill(ballast)
            yield
        finally:
            ballast.unlink(missing_ok=True)


@contextmanager
def files_limited(pids: Iterable[int], size: int) -> Iterator[None]:
    """Let processes write no file beyond a size until the context is left."""
    limited = list(pids)
    try:
        _limit(limited, size)
        yield
    finally:
        _limit(limited, resource.RLIM_INFINITY)


def _limit(pids: Iterable[int], size: int) -> None:
    if sys.platform != "linux":
        raise NotImplementedError
    for pid in pids:
        with suppress(ProcessLookupError):
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            wanted = size if most == resource.RLIM_INFINITY or size != resource.RLIM_INFINITY else most
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (wanted, most))


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (_CHUNK, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
