"""Simulation of a full disk without root privileges.

The torture test uses two methods. `RLIMIT_FSIZE` limits the size of the files that running processes write (Linux):
writes beyond it fail with EFBIG instead of ENOSPC. On a small dedicated file system (a tmpfs, an image), a ballast file
uses all free space, so that writes fail with ENOSPC.
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
"""Maximum free space of a small disk in bytes."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A directory on a small file system that tests can fill."""

    path: Path

    @contextmanager
    def fill(self) -> Iterator[None]:
        """Fill the file system until the context exits.

        Raises:
            ValueError: more than 4 GiB of the file system are free.
        """
        status = os.statvfs(self.path)
        if status.f_bavail * status.f_frsize > _LARGEST:
            raise ValueError(f"{self.path}: more than {_LARGEST >> 30} GiB are free; use a small dedicated file system")
        ballast = self.path / "ballast"
        try:
            _fill_file_system(ballast)
            yield
        finally:
            ballast.unlink(missing_ok=True)


@contextmanager
def limit_file_size(pids: Iterable[int], size: int) -> Iterator[None]:
    """Limit the size of the files that processes write, until the context exits."""
    limited = list(pids)
    try:
        _set_file_size_limit(limited, size)
        yield
    finally:
        _set_file_size_limit(limited, resource.RLIM_INFINITY)


def _set_file_size_limit(pids: Iterable[int], size: int) -> None:
    if sys.platform != "linux":
        raise NotImplementedError
    for pid in pids:
        with suppress(ProcessLookupError):
            _, hard_limit = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            soft_limit = size if hard_limit == resource.RLIM_INFINITY or size != resource.RLIM_INFINITY else hard_limit
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft_limit, hard_limit))


def _fill_file_system(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (_CHUNK, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
